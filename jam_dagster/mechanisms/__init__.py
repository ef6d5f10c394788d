"""JAM-PGM and its peers behind one protocol, and the graphical model they fit."""

from jam_dagster.mechanisms.aim import Aim
from jam_dagster.mechanisms.base import Mechanism
from jam_dagster.mechanisms.jam_pgm import JamPgm
from jam_dagster.mechanisms.live import MechanismResult
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.mechanisms.registry import MECHANISMS, load_model, make_mechanism, mechanism_class
from jam_dagster.mechanisms.replay import Replay, refit
from jam_dagster.models.base import Model
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import Measurement

__all__ = [
    "MECHANISMS",
    "Aim",
    "FittedModel",
    "JamPgm",
    "Measurement",
    "Mechanism",
    "MechanismResult",
    "Model",
    "Replay",
    "Round",
    "Transcript",
    "load_model",
    "make_mechanism",
    "mechanism_class",
    "refit",
]
