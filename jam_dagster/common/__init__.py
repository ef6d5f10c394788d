"""Tools that are independent of releases: files, YAML, pages, redaction of errors."""
