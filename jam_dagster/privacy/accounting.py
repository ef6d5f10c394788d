"""Zero-concentrated differential privacy (zCDP): conversions and exact amounts.

People state (epsilon, delta); mechanisms compose in rho, because the rho of zCDP simply adds up
(Bun and Steinke 2016, Lemma 1.7). The conversion between the two is the tight one of Canonne,
Kamath and Steinke (*The Discrete Gaussian for Differential Privacy*, 2020, Proposition 12 and
Corollary 13): for every order ``alpha > 1``, a rho-zCDP mechanism is (epsilon, delta)-DP with

    epsilon = alpha rho + [ln(1 / delta) - alpha ln(alpha)] / (alpha - 1) + ln(alpha - 1)

so any ``alpha`` gives a valid bound and the best one gives the tight bound. The order is searched
in floating point, where a small error costs nothing but tightness; the bound at the order found
is then evaluated to 60 digits and rounded toward safety.

Amounts of rho are kept as whole units of 1e-15 rho: a budget is rounded down to units and a
charge is rounded up, exactly, so that sums of charges can never creep past a budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.shares import DOMAIN, EVALUATION, MECHANISM

UNITS_PER_RHO = 10**15
"""Units of the ledger in one rho."""

UNITS_PER_DELTA = 10**18
"""Units of the ledger in a delta of 1."""

MAX_RHO = 9_000.0
"""The largest amount of rho that is accepted; it fits a signed 64-bit count of units."""

# More than the functions of floats may be wrong by, which round neither up nor down.
ROUNDING = 2.0**-40
_PRECISION = Context(prec=60)
# ln(alpha - 1) is searched between these; the optimum for any budget above one unit is inside.
_LOG_ORDER_RANGE = (-40.0, 46.0)


def check_rho(rho: float, *, name: str = "rho") -> float:
    """Return `rho` if it is an amount of privacy that can be spent.

    That is a finite number in (0, 9000].
    """
    value = _number(rho, name)
    if not 0.0 < value <= MAX_RHO:
        raise SpecificationError(f"{name} must be in (0, {MAX_RHO:g}], got {rho!r}")
    return value


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon` if it is positive and finite, else raise SpecificationError."""
    value = _number(epsilon, "epsilon")
    if not 0.0 < value < math.inf:
        raise SpecificationError(f"epsilon must be positive and finite, got {epsilon!r}")
    return value


def check_delta(delta: float) -> float:
    """Return `delta` if it is strictly between 0 and 1, else raise SpecificationError."""
    value = _number(delta, "delta")
    if not 0.0 < value < 1.0:
        raise SpecificationError(f"delta must be strictly between 0 and 1, got {delta!r}")
    return value


def epsilon_from_rho(rho: float, delta: float) -> float:
    """Return the smallest epsilon for which rho-zCDP is known to imply (epsilon, delta)-DP.

    Parameters
    ----------
    rho : float
        Amount of zCDP, 0 or more.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Epsilon, rounded up; 0.0 for ``rho = 0``.

    Raises
    ------
    SpecificationError
        If `rho` or `delta` is out of range.

    Examples
    --------
    >>> round(epsilon_from_rho(0.0149730577, 1e-9), 6)
    1.0
    """
    delta = check_delta(delta)
    if _number(rho, "rho") == 0.0:
        return 0.0
    rho = check_rho(rho)
    order = _best_order(_slope_at_rho, rho, -math.log(delta))
    with localcontext(_PRECISION):
        bound = order * Decimal(rho) + _intercept(order, Decimal(delta))
    return max(0.0, _float_above(bound))


def rho_from_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP is known to imply (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Rho, rounded down.

    Raises
    ------
    SpecificationError
        If `epsilon` or `delta` is out of range, or the budget is less than one unit (1e-15 rho)
        or more than 9000 rho.

    Examples
    --------
    >>> round(rho_from_epsilon(1.0, 1e-9), 10)
    0.0149730577
    """
    # Converted to floats: NumPy's numbers are accepted, and Decimal takes none of them.
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    log_inverse_delta = -math.log(delta)
    too_large = SpecificationError(
        f"epsilon {epsilon!r} at delta {delta!r} is more than {MAX_RHO:g} rho, which gives no "
        "protection; lower epsilon"
    )
    # The simpler bound (Bun and Steinke 2016, Proposition 1.3) is never below the tight one. Far
    # beyond it the best order is too close to 1 for floats to search.
    if epsilon > MAX_RHO + 2.0 * math.sqrt(MAX_RHO * log_inverse_delta):
        raise too_large
    order = _best_order(_slope_at_epsilon, epsilon, log_inverse_delta)
    with localcontext(_PRECISION):
        bound = (Decimal(epsilon) - _intercept(order, Decimal(delta))) / order
    if bound * UNITS_PER_RHO < 1:
        raise SpecificationError(
            f"epsilon {epsilon!r} at delta {delta!r} is less than 1e-15 rho, too little to spend; "
            "raise epsilon"
        )
    if bound > MAX_RHO:
        raise too_large
    return _float_below(bound)


def advantage_from_rho(rho: float) -> float:
    """Return what an attacker gains at most from the outcomes of a mechanism that costs `rho`.

    The attacker knows two neighbouring tables, and decides from the outcome which one was used. The
    advantage is the rate of decisions for one where it was used less that where the other one was.
    It is at most the total variation between the outcomes, which follows from their divergence, at
    most `rho` (Bun and Steinke 2016, Definition 1.1, at an order near 1)::

        advantage <= sqrt(rho / 2)           (Pinsker)
        advantage <= sqrt(1 - exp(-rho))     (Bretagnolle and Huber)

    Parameters
    ----------
    rho : float
        Amount of zCDP, 0 or more.

    Returns
    -------
    float
        The smaller bound, rounded up, between 0 and 1.

    Raises
    ------
    SpecificationError
        If `rho` is out of range.

    Examples
    --------
    >>> round(advantage_from_rho(0.0149730577), 4)
    0.0865
    """
    if _number(rho, "rho") == 0.0:
        return 0.0
    rho = check_rho(rho)
    smaller = min(math.sqrt(rho / 2.0), math.sqrt(-math.expm1(-rho)))
    return min(1.0, smaller * (1.0 + ROUNDING))


def epsilon_from_advantage(advantage: float, delta: float) -> float:
    """Return an epsilon at which no attacker gains more than `advantage`.

    Parameters
    ----------
    advantage : float
        As `advantage_from_rho` returns it, in (0, 1).
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The largest epsilon but for rounding: the budget's rho is worth at most `advantage`.

    Raises
    ------
    SpecificationError
        If a value is out of range, or `advantage` is too small for any budget.

    Examples
    --------
    >>> round(epsilon_from_advantage(0.1, 1e-9), 3)
    1.163
    """
    value = _number(advantage, "advantage")
    if not 0.0 < value < 1.0:
        raise SpecificationError(
            f"an advantage is above 0 and below 1, such as 0.1 for ten points, got {advantage!r}"
        )
    value *= 1.0 - 2.0 * ROUNDING
    rho = max(2.0 * value**2, -math.log1p(-(value**2)))
    epsilon = epsilon_from_rho(rho, delta) if rho * UNITS_PER_RHO >= 1.0 else 0.0
    if epsilon == 0.0:
        raise SpecificationError(
            f"advantage {advantage!r} at delta {delta!r} leaves no epsilon: raise it, or lower"
            " delta"
        )
    return epsilon * (1.0 - 4.0 * ROUNDING)


def units_up(rho: float) -> int:
    """Return a charge of `rho` in whole units of 1e-15 rho, rounded up, exactly."""
    return math.ceil(_exact(rho) * UNITS_PER_RHO)


def units_down(rho: float) -> int:
    """Return a budget of `rho` in whole units of 1e-15 rho, rounded down, exactly."""
    return math.floor(_exact(rho) * UNITS_PER_RHO)


def delta_units_up(delta: float) -> int:
    """Return a delta as its shortest digits say, in whole units of 1e-18, rounded up.

    Rho has what they leave, and so a delta that is granted is rounded up, too.
    """
    return math.ceil(Fraction(repr(_number(delta, "delta"))) * UNITS_PER_DELTA)


def delta_left(delta: float, units: int) -> float:
    """Return what is left of a delta for the conversion of rho, by shortest digits, rounded down.

    A mechanism that is rho-zCDP but with a probability of ``delta_s`` is
    ``(epsilon, delta)``-DP if rho-zCDP implies ``(epsilon, delta - delta_s)``-DP, and both amounts
    add up over mechanisms (Bun and Steinke 2016, Definition 8.1, Lemmas 8.2 and 8.8).

    Parameters
    ----------
    delta : float
        In (0, 1).
    units : int
        ``delta_s`` in units of 1e-18.

    Raises
    ------
    SpecificationError
        If nothing is left.
    """
    if not units:
        return delta
    left = Fraction(repr(float(delta))) - Fraction(units, UNITS_PER_DELTA)
    if left <= 0:
        raise SpecificationError(
            f"selections of values take all of delta {delta!r}, and rho needs some: give them less"
        )
    near = float(left)
    return near if Fraction(repr(near)) <= left else math.nextafter(near, 0.0)


def rho_within(units: int) -> float:
    """Return the largest float with a charge within `units`: ``units_up(rho_within(u)) <= u``.

    It is never less than an amount that was charged as `units`, since that fits too.
    """
    rho = units / UNITS_PER_RHO
    return rho if Fraction(rho) * UNITS_PER_RHO <= units else math.nextafter(rho, -math.inf)


def rho_reserving(units: int) -> float:
    """Return a float that is worth `units` as a budget: ``units_down(rho_reserving(u)) == u``.

    From 8 rho on floats are further apart than units, and `rho_within` is returned instead.
    """
    rho = rho_within(units)
    above = math.nextafter(rho, math.inf)
    return above if units_down(rho) < units and units_down(above) == units else rho


def equal_part(rho: float, parts: int) -> float:
    """Return the largest float of which so many cost at most `rho` together."""
    part = rho / parts
    return part if Fraction(part) * parts <= Fraction(rho) else math.nextafter(part, 0.0)


def exponential_epsilon(rho: float) -> float:
    """Return the epsilon of the exponential mechanism that costs `rho`.

    The mechanism that picks candidate c with probability proportional to
    ``exp(epsilon score_c / (2 sensitivity))`` is ``epsilon^2 / 8``-zCDP (Cesar and Rogers 2021),
    so ``epsilon = sqrt(8 rho)``.
    """
    return math.sqrt(8.0 * check_rho(rho))


def gaussian_sigma(l2_sensitivity: float, rho: float) -> float:
    """Return the scale of the (discrete or continuous) Gaussian mechanism that costs `rho`.

    The mechanism is ``l2_sensitivity^2 / (2 sigma^2)``-zCDP (Bun and Steinke 2016,
    Proposition 1.6; Canonne, Kamath and Steinke 2020, Theorem 4 for the discrete one).
    """
    return l2_sensitivity / math.sqrt(2.0 * check_rho(rho))


@dataclass(frozen=True)
class Budget:
    """A privacy budget as people state it.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In (0, 1); chosen without looking at the private data.
    selections : float
        The part of delta that selections of values have, in [0, delta); see `delta_left`.

    Raises
    ------
    SpecificationError
        If a value is out of range.

    Examples
    --------
    >>> Budget(1.0, 1e-9).rho
    0.01497305767...
    """

    epsilon: float
    delta: float
    selections: float = 0.0

    def __post_init__(self) -> None:
        if not _number(self.selections, "selections") >= 0.0:
            raise SpecificationError(
                f"the delta of selections must be 0 or more, got {self.selections!r}"
            )
        _ = self.rho

    @cached_property
    def rho(self) -> float:
        """The budget in rho, rounded down (tight conversion)."""
        return rho_from_epsilon(self.epsilon, self.converts_at)

    @cached_property
    def converts_at(self) -> float:
        """The delta at which rho and epsilon are converted: what selections leave."""
        return delta_left(check_delta(self.delta), delta_units_up(self.selections))

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        facts = {"epsilon": self.epsilon, "delta": f"{self.delta:g}", "rho (zCDP)": self.rho}
        return card("Privacy budget", facts)

    def shares(self, evaluation: float = 0.0, domain: float = 0.0) -> dict[str, float]:
        """Split the budget between mechanism, evaluation and domain, without losing a unit.

        Parameters
        ----------
        evaluation : float
            Fraction of rho, in [0, 1), set aside for measuring how good the result is.
        domain : float
            Fraction of rho, in [0, 1), set aside for buying what the domain asks for.

        Returns
        -------
        dict of str to float
            Rho of share ``"mechanism"`` and, of those that are positive, of ``"evaluation"`` and
            ``"domain"``; together never more than the budget.

        Raises
        ------
        SpecificationError
            If a fraction, or the sum of both, is not in [0, 1).
        """
        whole = units_down(self.rho)
        aside, left = {}, Fraction(1)
        for share, given in ((EVALUATION, evaluation), (DOMAIN, domain)):
            fraction = _number(given, f"the {share}'s share")
            left -= Fraction(fraction) if 0.0 <= fraction < 1.0 else 1
            if left <= 0:
                raise SpecificationError(
                    f"the {share}'s share of the budget must be in [0, 1), and less than the rest"
                    f" of it, got {given!r}"
                )
            aside[share] = math.floor(whole * Fraction(fraction))
        shares = {MECHANISM: rho_reserving(whole - sum(aside.values()))}
        return shares | {share: rho_reserving(units) for share, units in aside.items() if units}


def describe_advantage(budget: Budget) -> str:
    """Return what an attacker gains at most, in points of a hundred and words.

    >>> describe_advantage(Budget(1.0, 1e-9))
    '8.66 percentage points'
    """
    points = 100.0 * min(1.0, advantage_from_rho(budget.rho) + budget.selections)
    # Three figures, rounded up.
    step = 10.0 ** (math.floor(math.log10(points)) - 2)
    return f"{math.ceil(points / step) * step:.3g} percentage points"


def describe_certainty(budget: Budget) -> str:
    """Return how sure a reader may become of the true one of two tables that were equally likely.

    They are neighbours, and delta bounds the chance that somebody becomes surer: the logarithm of
    the likelihood ratio is more than ``rho + 2 sqrt(rho ln(1 / delta))`` with a probability of
    delta at most (Bun and Steinke 2016, proof of Proposition 1.3). Epsilon, which is less, has no
    such bound: (epsilon, delta) is about sets of outcomes.

    >>> describe_certainty(Budget(1.0, 1e-9))
    '75.6%'
    """
    rho = budget.rho
    loss = rho + 2.0 * math.sqrt(-rho * math.log(budget.converts_at))
    tenths = math.ceil(1000.0 * (1.0 + ROUNDING) / (1.0 + math.exp(-loss)))
    return f"{min(tenths, 1000) / 10:g}%"


_NO_PROTECTION = 20.0


def describe_factor(epsilon: float) -> str:
    """Return how many times as likely something may become: ``e^epsilon``, in words if it is much.

    >>> describe_factor(1.0)
    '2.72 times as likely'
    """
    if epsilon > _NO_PROTECTION:
        return f"e^{epsilon:g} times as likely (which is no protection)"
    return f"{math.exp(epsilon):.3g} times as likely"


def describe_rho(rho: float, delta: float) -> str:
    """Return an amount as people read it: ``rho 0.015 (epsilon 1 at delta 1e-09)``."""
    return f"rho {rho:.6g} (epsilon {epsilon_from_rho(rho, delta):.4g} at delta {delta:g})"


def _number(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        # NumPy's scalars are numbers too, and register as such only through float().
        item = getattr(value, "item", None)
        value = item() if callable(item) and getattr(value, "ndim", None) == 0 else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecificationError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        # The integer is larger than any float.
        raise SpecificationError(f"{name} must be a finite number, got {value!r}") from None


def _exact(rho: float) -> Fraction:
    value = _number(rho, "rho")
    if not 0.0 <= value <= MAX_RHO:
        raise SpecificationError(f"rho must be in [0, {MAX_RHO:g}], got {rho!r}")
    return Fraction(value)


def _log_factor(u: float) -> float:
    """Return ``ln(alpha - 1) - alpha ln(1 - 1 / alpha)`` at ``alpha = 1 + exp(u)``."""
    return u + (1.0 + math.exp(u)) * math.log1p(math.exp(-u))


def _slope(u: float, rho: float, epsilon: float) -> float:
    """Return the derivative of ln(delta) by alpha, which is convex in alpha."""
    return (1.0 + 2.0 * math.exp(u)) * rho - epsilon - math.log1p(math.exp(-u))


def _slope_at_rho(u: float, rho: float, log_inverse_delta: float) -> float:
    order = 1.0 + math.exp(u)
    epsilon = order * rho + (log_inverse_delta - _log_factor(u)) / (order - 1.0)
    return _slope(u, rho, epsilon)


def _slope_at_epsilon(u: float, epsilon: float, log_inverse_delta: float) -> float:
    order = 1.0 + math.exp(u)
    rho = (epsilon - (log_inverse_delta - _log_factor(u)) / (order - 1.0)) / order
    return _slope(u, rho, epsilon)


# A release, its pages and its checks convert the same few budgets hundreds of times.
@lru_cache(maxsize=1024)
def _best_order(slope: Callable[[float, float, float], float], *at: float) -> Decimal:
    """Bisect for the alpha where `slope` changes its sign; it does so once, by convexity."""
    low, high = _LOG_ORDER_RANGE
    for _ in range(100):
        middle = 0.5 * (low + high)
        if slope(middle, *at) < 0.0:
            low = middle
        else:
            high = middle
    return 1 + Decimal(math.exp(low))


def _intercept(order: Decimal, delta: Decimal) -> Decimal:
    """Return the terms of the bound that do not contain rho, in the context's precision."""
    excess = order - 1
    return (-delta.ln() - order * order.ln()) / excess + excess.ln()


def _float_below(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) <= value else math.nextafter(nearest, -math.inf)


def _float_above(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
