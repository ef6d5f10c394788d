"""A synthetic table from two tables, without Dagster: what `jam-dagster synthesize` runs."""

from jam_dagster.planning.make_plan import make_plan
from jam_dagster.planning.plan import Plan
from jam_dagster.planning.request import PlanRequest
from jam_dagster.release.options import SynthesisRequest
from jam_dagster.release.result import Synthesis
from jam_dagster.release.run import synthesize

__all__ = ["Plan", "PlanRequest", "Synthesis", "SynthesisRequest", "make_plan", "synthesize"]
