"""JAM-PGM and its peers behind one protocol, and the graphical model they fit."""

from jam_dagster.mechanisms.aim import Aim
from jam_dagster.mechanisms.jam_pgm import JamPgm
from jam_dagster.mechanisms.model import FittedModel
from jam_dagster.mechanisms.protocol import Mechanism, MechanismResult, OnRound, refit
from jam_dagster.mechanisms.transcript import (
    Measurement,
    Round,
    Transcript,
    sampling_generator,
)

__all__ = [
    "Aim",
    "FittedModel",
    "JamPgm",
    "Measurement",
    "Mechanism",
    "MechanismResult",
    "OnRound",
    "Round",
    "Transcript",
    "refit",
    "sampling_generator",
]
