"""A synthetic table from two tables, without Dagster: what `jam-dagster synthesize` runs."""

from jam_dagster.synthesis.made import Synthesis
from jam_dagster.synthesis.request import SynthesisRequest
from jam_dagster.synthesis.run import synthesize

__all__ = ["Synthesis", "SynthesisRequest", "synthesize"]
