"""A synthetic table from two tables, without Dagster: what `jam-dagster synthesize` runs."""

from jam_dagster.release.options import SynthesisRequest
from jam_dagster.release.result import Synthesis
from jam_dagster.release.run import synthesize

__all__ = ["Synthesis", "SynthesisRequest", "synthesize"]
