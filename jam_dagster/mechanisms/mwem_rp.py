"""MWEM + relaxed projection: MWEM's rounds, with a mixture of free rows for its estimate.

McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data", VLDB 2022, Algorithm 1 and Appendix F, with the relaxed projection of
Aydore et al. (ICML 2021) in place of Private-PGM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.mixture import MixtureMechanism
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.mixture.adam_step import free_rows
from jam_dagster.models.mixture.training import MixtureTrainer
from jam_dagster.tables import Clique, Domain, PublicTables, Workload


@dataclass(frozen=True)
class MwemRp(MixtureMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    rounds, alpha, components, loss, learning_rate, iterations, threshold, generator_seed
        See `MixtureMechanism`. The paper reports the best T of 5, 10, ..., 100, which takes a look
        at the private table. Half of a round's budget selects, as in Algorithm 1. K is the default
        of the code of relaxed projection.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - Candidates are the marginals of the workload itself. The score is a marginal's error less its
      number of cells n_r, whatever the noise.
    - Each attribute's values in a row are projected onto the simplex after each step of Adam, whose
      gradient is without its mean: the projection would undo that. They begin almost even. From
      [-1, 1], where Aydore et al. begin, the projection would leave a few values of each attribute,
      and training seldom finds the others.
    - A round's training ends where noise explains the errors; Aydore et al. train for a thousand
      steps, also on noise.
    """

    alpha: float = alpha_setting(0.5)
    components: int = setting(
        1000, "K, the number of products in the mixture", minimum=1, maximum=100_000
    )
    learning_rate: float = setting(0.03, "of Adam, in the first step of a round", above=0)

    name: ClassVar[str] = "mwem_rp"
    title: ClassVar[str] = "MWEM + relaxed projection"
    summary: ClassVar[str] = "MWEM's rounds, with free rows that are projected onto distributions"
    rank: ClassVar[int] = 132

    def candidates(self, workload: Workload) -> Sequence[Clique]:
        """Return the workload."""
        return workload.cliques

    def penalty(self, sigma: float) -> float:
        """Return 1, whatever the noise."""
        return 1.0

    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return free rows."""
        rows = free_rows(domain.shape, self.components, self.generator_seed)
        return MixtureTrainer(domain, rows, self.loss)
