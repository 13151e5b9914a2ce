"""Storage of records. `port` defines what every backend provides; `file_store` and the rest of the package provide it with files."""
