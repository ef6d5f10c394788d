"""Noise: one protocol, an exact backend and a seeded one."""
