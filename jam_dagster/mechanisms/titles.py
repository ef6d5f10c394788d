"""What mechanisms are called where people read."""

from __future__ import annotations

from collections.abc import Mapping

TITLES: Mapping[str, str] = {
    "jam_pgm": "JAM-PGM",
    "aim": "AIM",
    "mwem_pgm": "MWEM+PGM",
    "mst": "MST",
    "independent": "Independent",
    "gaussian": "Gaussian",
    "pmw_pub": "PMW^Pub",
    "mwem": "MWEM",
    "pep": "PEP",
    "pep_pub": "PEP^Pub",
    "gem": "GEM",
    "gem_pub": "GEM^Pub",
    "rap_softmax": "RAP^softmax",
}
"""As the papers call them."""


def title_of(name: str) -> str:
    """Return what a mechanism is called; one that is not listed by its own name."""
    return TITLES.get(name, name)
