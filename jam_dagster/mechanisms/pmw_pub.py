"""PMW^Pub: private multiplicative weights over the records of a public table.

Liu, Vietri, Steinke, Ullman, Wu: "Leveraging Public Data for Practical Private Query Release",
ICML 2021, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.base import PublicUse
from jam_dagster.mechanisms.mwem import Mwem, iterate_setting, passes_setting


@dataclass(frozen=True)
class PmwPub(Mwem):
    """The mechanism and its settings.

    The model weights the distinct records of the public table, initially by their frequency. For
    any budget, it cannot be better than the best weights of these records (see
    `jam_dagster.evaluation.best_mixture`).

    Attributes
    ----------
    rounds, alpha
        See `HistogramMechanism`.
    passes
        Number of passes over all measurements after each new one (Appendix C.3 of the paper has
        one); see `MultiplicativeWeights`.
    iterate
        The released weights. Algorithm 1 averages, which its theorem needs.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - A round measures a whole marginal, chosen as by GEM; the paper measures single cells.
    - The choice is the exponential mechanism's, of eps^2/8-zCDP. The paper's permute-and-flip is
      eps^2/2-zCDP: at one price it has half the eps.
    - A marginal that was measured comes again when all have been measured as often: an error that
      no weights can remove would be selected for ever.
    - Reused answers update the weights that the update before left, as in Hardt et al.; the code of
      Liu et al. takes those of the round's begin.
    """

    passes: int = passes_setting(1)
    iterate: str = iterate_setting("average")

    name: ClassVar[str] = "pmw_pub"
    title: ClassVar[str] = "PMW^Pub"
    summary: ClassVar[str] = "weighs the records of the public table"
    rank: ClassVar[int] = 70
    takes_public: ClassVar[PublicUse] = "must"
    takes_named_public: ClassVar[bool] = False
