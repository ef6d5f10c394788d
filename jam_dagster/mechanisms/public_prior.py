"""The public prior alone: a model of public data, which spends nothing.

The baseline that "the public table alone" should be: a k-tree network of the public tables, mixed
with their records. `jam_dagster.mechanisms.tilt` starts from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.base import Mechanism, PublicUse, public_of
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.moments import corrected
from jam_dagster.models.tilted.corrected import CorrectedModel
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.tables import Domain, Workload


@dataclass(frozen=True)
class PublicPriorAlone(Mechanism):
    """The mechanism, which has no settings.

    Notes
    -----
    It measures nothing, except for the number of records where that is private; its budget returns
    to the dataset. It reads that number alone of the private table.
    """

    name: ClassVar[str] = "public_prior"
    title: ClassVar[str] = "Public prior"
    summary: ClassVar[str] = "a network of the public table, which costs nothing"
    rank: ClassVar[int] = 65
    page: ClassVar[str] = "tilt.md#public-prior"
    pace: ClassVar[float] = 0.2
    takes_public: ClassVar[PublicUse] = "must"
    reads_values: ClassVar[bool] = False

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return 0."""
        return 0

    def check_budget(self, rho: float) -> None:
        """Accept any budget."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Accept any domain and budget."""

    def draw(self, ctx: Context) -> TiltedModel | CorrectedModel:
        """Return the prior, over the number of records, without a round."""
        prior = PublicPrior.of(ctx.domain, public_of(self, ctx.public))
        return corrected(ctx, prior.model(ctx.records))
