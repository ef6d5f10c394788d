"""From rows to codes, and from codes to marginals."""
