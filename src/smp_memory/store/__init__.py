"""Where do records live? `port` says what every store must do; `file_store` does it with files a person can read."""
