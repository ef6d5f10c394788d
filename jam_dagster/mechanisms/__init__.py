"""JAM-PGM and its peers behind one protocol, and the graphical model they fit."""

from jam_dagster.mechanisms.aim import Aim
from jam_dagster.mechanisms.base import Mechanism
from jam_dagster.mechanisms.context import OnRound
from jam_dagster.mechanisms.discovery import Registration
from jam_dagster.mechanisms.gaussian import Gaussian
from jam_dagster.mechanisms.gem import Gem, GemPub
from jam_dagster.mechanisms.independent import Independent
from jam_dagster.mechanisms.jam_pgm import JamPgm
from jam_dagster.mechanisms.live import MechanismResult
from jam_dagster.mechanisms.loops.rows import (
    release_rows,
    sample_rows,
    with_chunks,
    with_search,
)
from jam_dagster.mechanisms.loops.transcript import Round, Transcript, sampling_generator
from jam_dagster.mechanisms.mst import Mst
from jam_dagster.mechanisms.mwem import Mwem
from jam_dagster.mechanisms.mwem_pgm import MwemPgm
from jam_dagster.mechanisms.pep import Pep, PepPub
from jam_dagster.mechanisms.pmw_pub import PmwPub
from jam_dagster.mechanisms.public_prior import PublicPriorAlone
from jam_dagster.mechanisms.rap_softmax import RapSoftmax
from jam_dagster.mechanisms.registry import (
    MECHANISMS,
    load_model,
    make_mechanism,
    mechanism_class,
)
from jam_dagster.mechanisms.replay import Replay, refit
from jam_dagster.mechanisms.tilt import Tilt
from jam_dagster.models.base import Model
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.weighted.model import WeightedTable

__all__ = [
    "MECHANISMS",
    "Aim",
    "FittedModel",
    "Gaussian",
    "Gem",
    "GemPub",
    "Independent",
    "JamPgm",
    "MeasuredAnswers",
    "Measurement",
    "Mechanism",
    "MechanismResult",
    "Model",
    "Mst",
    "Mwem",
    "MwemPgm",
    "OnRound",
    "Pep",
    "PepPub",
    "PmwPub",
    "ProductMixture",
    "PublicPriorAlone",
    "RapSoftmax",
    "Registration",
    "Replay",
    "Round",
    "Tilt",
    "TiltedModel",
    "Transcript",
    "WeightedTable",
    "load_model",
    "make_mechanism",
    "mechanism_class",
    "refit",
    "release_rows",
    "sample_rows",
    "sampling_generator",
    "with_chunks",
    "with_search",
]
