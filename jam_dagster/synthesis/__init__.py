"""A synthetic table from two tables, without Dagster: what `jam-dagster synthesize` runs."""

from jam_dagster.synthesis.made import Synthesis
from jam_dagster.synthesis.plan import Plan
from jam_dagster.synthesis.plan_request import PlanRequest
from jam_dagster.synthesis.planning import make_plan
from jam_dagster.synthesis.request import SynthesisRequest
from jam_dagster.synthesis.run import synthesize

__all__ = ["Plan", "PlanRequest", "Synthesis", "SynthesisRequest", "make_plan", "synthesize"]
