"""Search: validated queries, filters, time ranges, ranking, the query path, archives, and watching."""
