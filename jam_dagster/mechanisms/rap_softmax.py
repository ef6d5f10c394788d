"""RAP^softmax: synthetic rows of independent distributions, trained directly.

Liu, Vietri, Wu: "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
NeurIPS 2021, Appendix B.2, after the relaxed adaptive projection of Aydore et al. (ICML 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.loops.mixture import MixtureMechanism
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.mixture.adam_step import free_logits
from jam_dagster.models.mixture.training import MixtureTrainer
from jam_dagster.tables import Domain, PublicTables


@dataclass(frozen=True)
class RapSoftmax(MixtureMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    rounds, alpha, components, loss, learning_rate, iterations, threshold, generator_seed
        See `MixtureMechanism`. The logits begin standard normal; K and the learning rate are those
        of the authors' runs.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    components: int = setting(
        1000, "K, the number of products in the mixture", minimum=1, maximum=100_000
    )
    learning_rate: float = setting(0.1, "of Adam, in the first step of a round", above=0)

    name: ClassVar[str] = "rap_softmax"
    title: ClassVar[str] = "RAP^softmax"
    summary: ClassVar[str] = "trains the mixture of products itself"
    rank: ClassVar[int] = 130

    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return free logits."""
        weights = free_logits(domain.shape, self.components, self.generator_seed)
        return MixtureTrainer(domain, weights, self.loss)
