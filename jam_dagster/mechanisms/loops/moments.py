"""The correction of a tilted model by its moments, as a step of a run."""

from __future__ import annotations

from jam_dagster.mechanisms.context import Context
from jam_dagster.models.tilted.corrected import POOL_SEED, CorrectedModel
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.moments import Moments

STEP = "moments"
"""The name of the step, of which a run has one."""


def corrected(ctx: Context, model: TiltedModel) -> TiltedModel | CorrectedModel:
    """Return a model with its public records' correlations, or as it is if nothing tilts it.

    That nothing does is a solution too, unless the model has no public records.
    """
    if model.rows is None:
        return model
    moments = Moments(model, POOL_SEED)
    found = ctx.settle(STEP, moments)
    return CorrectedModel(model, POOL_SEED, found, moments) if found.any() else model
