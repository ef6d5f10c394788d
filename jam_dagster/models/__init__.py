"""Models: they are fitted to measurements and stored, and answer marginals and sample rows."""
