"""Search: validated queries, filters, time ranges, ranking, and the query path. Pure but for the path, the archives and `watch`."""
