"""Models that are fitted to measurements, stored, and asked for marginals and rows."""
