"""Bounds on the errors of a release, from what it published."""
