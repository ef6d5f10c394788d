"""Minimization by a quasi-Newton method with limited memory.

Liu, Nocedal 1989: "On the limited memory BFGS method for large scale optimization"; the recursion
runs on inner products (Chen, Wang, Zhou 2014: "Large-scale L-BFGS using MapReduce"), which reads
every correction once a step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CORRECTIONS = 8
"""Pairs of steps and gradient changes from which the curvature is estimated."""

DECREASE = 1e-4
"""The part of the promised decrease that a step has to keep (Armijo's rule)."""

SHORTENED = 12
"""Most times that a step is shortened."""

NOTHING = 1e-8
"""A step that promises less than this part of the tolerance ends a fit: rounding decides then
whether the function falls, and it would be shortened again and again."""


def minimize(
    function: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    evaluations: int,
    tolerance: float,
    within: Callable[[Floats], Floats] = lambda point: point,
) -> tuple[Floats, int]:
    """Minimize a smooth function over a box, of which `within` returns the nearest point.

    The gradient is 0 where descent would leave the box. The end is where a step lowers the function
    by no more than `tolerance`, in its units.
    """
    point = start.copy()
    value, gradient = function(point)
    gradient = gradient.copy()
    memory = _Corrections(point.size)
    taken = 1
    while taken < evaluations:
        direction = memory.direction(gradient)
        if not float(direction @ gradient) < 0.0:
            memory = _Corrections(point.size)
            direction = -gradient
        if not float(direction @ gradient) < -NOTHING * tolerance:
            break
        size = 1.0
        for _ in range(SHORTENED):
            trial = within(point + size * direction)
            moved = trial - point
            # A step that the box cuts off may promise nothing.
            promised = min(float(gradient @ moved), 0.0)
            found, at_trial = function(trial)
            taken += 1
            if found <= value + DECREASE * promised or taken >= evaluations:
                break
            # The minimum of the parabola through both values with the slope at the start.
            bent = found - value - promised
            size *= min(0.5, max(0.1, -promised / (2.0 * bent))) if bent > 0.0 else 0.1
        if not found <= value:
            function(point)
            break
        gained = value - found
        # A first step, of the gradient alone, may gain little where a second one gains much.
        ends = gained <= tolerance and bool(memory)
        memory.add(moved, gradient, at_trial)
        point, value = trial, found
        gradient[:] = at_trial
        if ends:
            break
    return point, taken


class _Corrections:
    """The last steps and changes of the gradient, and all inner products of them."""

    def __init__(self, size: int) -> None:
        # The steps come first, then the changes; both in the order of `_age`.
        self._vectors = np.zeros((2 * CORRECTIONS, size))
        self._products = np.zeros((2 * CORRECTIONS, 2 * CORRECTIONS))
        # The products with the gradient where the last step ended.
        self._with_gradient = np.zeros(2 * CORRECTIONS)
        self._age: list[int] = []

    def __bool__(self) -> bool:
        """Whether any curvature is known."""
        return bool(self._age)

    def add(self, step: Floats, before: Floats, after: Floats) -> None:
        """Keep a step and the change of the gradient along it, unless it shows no curvature.

        The gradient `before` it is that of the last direction.
        """
        change = after - before
        known = bool(self._age)
        with_after = self._vectors @ after if known else np.zeros(2 * CORRECTIONS)
        with_change = with_after - self._with_gradient
        self._with_gradient = with_after
        curved = float(step @ change)
        if not curved > 1e-12 * float(change @ change):
            return
        with_step = self._vectors @ step if known else np.zeros(2 * CORRECTIONS)
        slot = len(self._age) if len(self._age) < CORRECTIONS else self._age.pop(0)
        self._age.append(slot)
        one, other = slot, slot + CORRECTIONS
        self._vectors[one], self._vectors[other] = step, change
        for row, products in ((one, with_step), (other, with_change)):
            self._products[row], self._products[:, row] = products, products
        self._products[one, one] = float(step @ step)
        self._products[other, other] = float(change @ change)
        self._products[one, other] = self._products[other, one] = curved
        self._with_gradient[[one, other]] = float(step @ after), float(change @ after)

    def direction(self, gradient: Floats) -> Floats:
        """Return the negative gradient, multiplied by the inverse curvature as it is known.

        The gradient is that where the last step ended.
        """
        if not self._age:
            return -gradient
        products, with_gradient = self._products, self._with_gradient
        # The direction as a combination of all vectors, then of the gradient.
        parts = np.zeros(2 * CORRECTIONS)
        shares: dict[int, float] = {}
        for slot in reversed(self._age):
            step, change = slot, slot + CORRECTIONS
            shares[slot] = (with_gradient[step] + products[step] @ parts) / products[step, change]
            parts[change] -= shares[slot]
        newest = self._age[-1]
        scale = (
            products[newest, newest + CORRECTIONS]
            / products[newest + CORRECTIONS, newest + CORRECTIONS]
        )
        parts *= scale
        for slot in self._age:
            step, change = slot, slot + CORRECTIONS
            back = scale * with_gradient[change] + products[change] @ parts
            parts[step] += shares[slot] - back / products[step, change]
        found: Floats = parts @ self._vectors
        found += scale * gradient
        np.negative(found, out=found)
        return found
