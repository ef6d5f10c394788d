"""Stores for the assets of a release, and their formats."""
