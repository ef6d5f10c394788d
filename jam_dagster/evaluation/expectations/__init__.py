"""Expectations of a synthetic table: their kinds, and their validation by Great Expectations."""
