"""Bayesian networks: conditional tables, and rows by ancestral sampling."""
