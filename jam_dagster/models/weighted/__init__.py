"""Distributions over weighted records, and their fits."""
