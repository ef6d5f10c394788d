"""The code location of this repository."""
