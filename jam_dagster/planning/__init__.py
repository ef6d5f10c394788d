"""Plans: a release simulated on public data before anything is spent."""

from jam_dagster.planning.plan import Plan
from jam_dagster.planning.planner import prepare, simulate
from jam_dagster.planning.request import PlanRequest

__all__ = ["Plan", "PlanRequest", "prepare", "simulate"]
