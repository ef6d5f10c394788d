"""Bounds that follow from rho, in the words of disclosure control and of data protection.

Each figure follows from the budget alone, for attackers with any other knowledge. The sources are

- Bun and Steinke (2016), *Concentrated Differential Privacy*: a group of k people is protected by
  ``k^2 rho``, the likelihood ratio has a tail (proof of Proposition 1.3), and rho bounds the
  mutual information.
- Cohen and Nissim (2020), *Towards Formalizing the GDPR's Notion of Singling Out*.
- Currie (1968), *Limits for Qualitative Detection and Quantitative Determination*.
"""

from __future__ import annotations

import math

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.accounting import (
    ROUNDING,
    Budget,
    advantage_from_rho,
    check_rho,
)

ERROR = 0.05
"""How often a count may be taken for 0, and 0 for a count, where the two count as distinct."""

_TAIL = 1.6448536269514722
"""The normal quantile at ``1 - ERROR``."""

BY_CHANCE = 0.001
"""The probability that somebody is singled out by chance, with which a release is compared."""


def detected_count(sigma: float) -> int:
    """Return the smallest count that noise leaves apart from 0, by Currie's limit of detection.

    An empty cell is above ``z sigma`` with a probability of `ERROR`. A cell of ``2 z sigma`` is
    above it in all but so many cases; z is the normal quantile.

    >>> detected_count(17.8)
    59
    """
    return max(1, math.ceil(2.0 * _TAIL * sigma))


def hidden_group(rho: float) -> int:
    """Return the size of the largest group that cannot be known from nobody, by any means.

    Tables that differ by k people are ``k^2 rho`` apart. Who errs with a probability of `ERROR` at
    most in both has an advantage of ``1 - 2 ERROR``, and `advantage_from_rho` is less for all
    groups up to this size.

    >>> hidden_group(0.00395)
    20
    """
    wanted = 1.0 - 2.0 * ERROR
    # Both bounds of an advantage reach it here.
    least = max(2.0 * wanted**2, -math.log1p(-(wanted**2)))
    size = math.ceil(math.sqrt(least / check_rho(rho)))
    while size > 0 and advantage_from_rho(size * size * rho) >= wanted:
        size -= 1
    return size


def learnt_bits(rho: float) -> float:
    """Return how many bits of a person's record the release gives on average, at most.

    It is the mutual information of the record and the release, for who knows all other records and
    how likely each record is. It is the mean divergence from a mixture, at most ``rho log2(e)``.

    >>> round(learnt_bits(0.0149730577), 4)
    0.0216
    """
    return check_rho(rho) / math.log(2.0) * (1.0 + ROUNDING)


def surest_guess(budget: Budget, prior: float, *, people: int = 1) -> float:
    """Return how likely a value may become that was as likely as `prior`, rounded up.

    The logarithm of the likelihood ratio is at most ``rho + 2 sqrt(rho ln(1 / delta))`` but with a
    probability of delta. A mixture of other values is no further away than the furthest.

    Parameters
    ----------
    budget
        The budget of a release.
    prior
        How likely the value was before, in (0, 1).
    people
        How many people the tables of two values differ by: two where neighbours add or remove one.

    >>> round(surest_guess(Budget(1.0, 1e-9), 0.5), 3)
    0.756
    """
    if not 0.0 < prior < 1.0:
        raise SpecificationError(f"a prior is above 0 and below 1, got {prior!r}")
    rho = people**2 * budget.rho
    loss = rho + 2.0 * math.sqrt(-rho * math.log(budget.converts_at))
    return min(1.0, (1.0 + ROUNDING) / (1.0 + (1.0 / prior - 1.0) * math.exp(-loss)))


def surest_link(rho: float, selections: float = 0.0) -> float:
    """Return how often somebody decides rightly between two tables, a coin's 0.5 at least.

    They are neighbours and equally likely, so it is ``(1 + advantage) / 2``; `selections` is the
    delta that selections of values have.

    >>> round(surest_link(0.0149730577), 4)
    0.5433
    """
    return (1.0 + min(1.0, advantage_from_rho(rho) + selections)) / 2.0


def singled_out(budget: Budget, people: int) -> float:
    """Return how often somebody is singled out, who is so by chance as often as `BY_CHANCE`.

    A description that fits a share w of the population fits exactly one of n people by chance with
    a probability of at most ``n w``. The description may follow from the release: then the
    probability is at most ``n (e^epsilon w + delta)``, since leaving out a person makes it
    independent of that person. The people are taken to be drawn independently of each other.

    >>> round(singled_out(Budget(1.0, 1e-9), 30_000), 6)
    0.002748
    """
    factor = math.exp(min(budget.epsilon, 700.0))
    bound = factor * BY_CHANCE + max(0, people) * budget.delta
    return min(1.0, bound * (1.0 + ROUNDING))
