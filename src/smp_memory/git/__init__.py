"""Git support: three-way merge of session files for git's merge driver, and calls of the git program."""
