"""A synthetic table from two tables, without Dagster: what `jam-dagster synthesize` runs."""

from jam_dagster.synthesis.request import SynthesisRequest
from jam_dagster.synthesis.run import Synthesis, synthesize

__all__ = ["Synthesis", "SynthesisRequest", "synthesize"]
