"""Text without any storage: terms and stems, names, spelling, wildcards, and the text of a memory. Pure."""
