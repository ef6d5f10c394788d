"""Differentially private synthetic tables with public data, as Dagster assets."""

__version__ = "0.1.0"
