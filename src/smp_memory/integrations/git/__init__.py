"""SMP as a tool of git: the merge driver, `smp git setup`, and the check of staged files."""
