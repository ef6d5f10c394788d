"""How the draws and rounds of a transcript differ from those that its mechanism makes."""

from __future__ import annotations

import math

import numpy as np

from jam_dagster.common.json_text import parse_json
from jam_dagster.mechanisms.loops.transcript import Round
from jam_dagster.privacy.accounting import UNITS_PER_RHO
from jam_dagster.privacy.noise.calls import (
    CLOSE,
    SELECTION,
    NoiseCall,
    noise_fault,
    subject_of_choices,
)

_ASKED = {"kind": "kind", "cells": "size", "choices": "number of choices", "subject": "subject"}
"""Parts of a draw other than price and sensitivity, with their names for readers."""

_COMPARED = (
    *("index", "clique", "source", "table", "candidates", "size_limit_mb"),
    *("rho_select", "rho_measure", "rho_spent", "sigma"),
)
"""Parts of a round that no fit influences; the ledger's digest of the run covers the rest."""


def draw_difference(call: NoiseCall, asked: NoiseCall) -> str:
    """Return how a recorded draw differs from the one that was asked; empty if it does not."""
    step = asked.step
    if call.step != step:
        return f"{step} was not drawn, and {call.step} was"
    # A float may have lost a unit of what was charged for a lost draw.
    if not _near(call.rho, asked.rho):
        return f"{step} cost rho {call.rho:.6g} in place of {asked.rho:.6g}"
    if not math.isclose(call.sensitivity, asked.sensitivity, rel_tol=CLOSE):
        return f"{step} has the sensitivity {call.sensitivity:g} in place of {asked.sensitivity:g}"
    for name, called in _ASKED.items():
        was, wanted = getattr(call, name), getattr(asked, name)
        # The subject of a selection is its outcome.
        if was != wanted and not (name == "subject" and call.kind == SELECTION):
            return f"{step} has the {called} {was!r} in place of {wanted!r}"
    return noise_fault(call)


def round_difference(made: Round, recorded: Round) -> str:
    """Return how a recorded round differs from the one that was made; empty if it does not."""
    called = f"round {made.index + 1}"
    if _step(made) != _step(recorded):
        return f"{called} records what {_step(recorded)!r} gave"
    for name in _COMPARED:
        here, there = getattr(made, name), getattr(recorded, name)
        both = isinstance(here, float) and isinstance(there, float)
        if not (_near(here, there) if both else here == there):
            return f"{called} records another {name} than it had"
    return ""


def chosen_names(call: NoiseCall) -> list[str]:
    """Return the names of a recorded draw's choices; none if a run does not write them so."""
    names = [call.subject]
    if call.choices != 1:
        try:
            names = list(map(str, parse_json(call.subject)))
        except (ValueError, TypeError):
            return []
    whole = len(names) == call.choices and subject_of_choices(names) == call.subject
    return names if whole else []


def is_drawable(values: np.ndarray) -> bool:
    """Return whether a draw may give these values: finite floats."""
    return values.dtype == np.float64 and bool(np.isfinite(values).all())


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=2 / UNITS_PER_RHO)


def _step(one: Round) -> str:
    return "" if one.measurement is None else one.measurement.step
