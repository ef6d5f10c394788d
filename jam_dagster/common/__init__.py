"""What knows nothing of releases: files, YAML, pages, redaction of errors."""
