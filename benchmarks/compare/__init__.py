"""The comparison with other memories: every peer in an environment of its own, the same data, the same run."""
