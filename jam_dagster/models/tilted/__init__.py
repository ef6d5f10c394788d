"""A distribution of public data, tilted by private measurements."""
