"""Mixtures of product distributions, and their training."""
