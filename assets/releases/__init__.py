"""The releases, one folder each."""
