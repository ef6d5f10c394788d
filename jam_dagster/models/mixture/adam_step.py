"""The training of GEM, RAP and their like in JAX: weights, their probabilities, and Adam steps.

Measured marginals differ in shape, and a program that saw them would be compiled again
for each. So these programs see the probabilities of all attributes side by side, which have one
shape, and take the gradient by them as an input: two compilations a domain, however many rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.models.mixture.jax_runtime import load_jax

Weights = dict[str, Any]
"""Arrays by name, single precision."""

MOST_NUMBERS = 2**29
"""The most numbers in the arrays of a training step: two gibibytes."""

_NORMAL_EPSILON = 1e-5
"""The constant that is added to a batch's variance, as in PyTorch."""


def check_size(sizes: Sequence[int], rows: int, width: int = 0) -> None:
    """Raise SpecificationError if the arrays of a training step are too large; see `network`."""
    numbers = (rows + 5 * width) * (sum(sizes) + 5 * width)
    if numbers > MOST_NUMBERS:
        raise SpecificationError(
            f"A mixture of {rows:,} products over {sum(sizes):,} values takes {numbers:,} numbers, "
            f"more than {MOST_NUMBERS:,}: lower components, or give fewer values an attribute."
        )


def free_logits(sizes: Sequence[int], rows: int, seed: int) -> Weights:
    """Return the weights of RAP^softmax: a logit for each value of each row, standard normal."""
    check_size(sizes, rows)
    rng = np.random.default_rng(seed)
    return {"logits": _single(rng.standard_normal((rows, sum(sizes))))}


def free_rows(sizes: Sequence[int], rows: int, seed: int) -> Weights:
    """Return the weights of relaxed projection: the probabilities of each row themselves.

    After each step those of each attribute are projected onto the simplex. They begin uniform in
    [0, 1], over their sum.
    """
    check_size(sizes, rows)
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(0, 1, (rows, size)) for size in sizes]
    return {"rows": _single(np.hstack([part / part.sum(axis=1, keepdims=True) for part in parts]))}


def network(sizes: Sequence[int], rows: int, width: int, seed: int) -> Weights:
    """Return the weights of GEM's generator, and its inputs.

    Each of two hidden layers is a linear map, a normalization over the rows and a ReLU, and hands
    on its inputs with its outputs; a linear map to the logits follows. This is the generator of
    CTGAN, which GEM's authors use.
    """
    check_size(sizes, rows, width)
    rng = np.random.default_rng(seed)
    weights: Weights = {"inputs": _single(rng.standard_normal((rows, width)))}
    fan_in = width
    for layer, outputs in enumerate((2 * width, 2 * width)):
        _linear(weights, f"hidden_{layer}", fan_in, outputs, rng)
        weights[f"hidden_{layer}_gain"] = np.ones(outputs, np.float32)
        weights[f"hidden_{layer}_shift"] = np.zeros(outputs, np.float32)
        fan_in += outputs
    _linear(weights, "logits", fan_in, sum(sizes), rng)
    return weights


def _linear(weights: Weights, name: str, fan_in: int, outputs: int, rng: Any) -> None:
    bound = 1 / np.sqrt(fan_in)
    weights[f"{name}_map"] = _single(rng.uniform(-bound, bound, (fan_in, outputs)))
    weights[f"{name}_bias"] = _single(rng.uniform(-bound, bound, outputs))


def _single(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


@dataclass(frozen=True)
class Programs:
    """The compiled programs; each is compiled once for every shape of weights.

    `probabilities` turns ``(weights, sizes)`` into all attributes' probabilities side by side,
    shape ``(K, cells)``. `advance` turns ``(weights, state, gradient, rate, sizes)`` into weights,
    state and probabilities after a step, given the gradient by the probabilities before it.
    `average` turns ``(held, weights, keep)`` into ``keep held + (1 - keep) weights``, and `project`
    ``(weights, sizes)`` into projected weights.
    """

    probabilities: Callable[..., Any]
    begin: Callable[..., Any]
    advance: Callable[..., Any]
    average: Callable[..., Any]
    project: Callable[..., Any]


@cache
def programs() -> Programs:
    """Import jax and optax, which takes seconds, and return the programs."""
    jax = load_jax()
    import optax

    numpy = jax.numpy
    adam = optax.scale_by_adam()

    def logits(trained: Weights, inputs: Any) -> Any:
        if inputs is None:
            return trained["logits"]
        flow = inputs
        for layer in range(2):
            name = f"hidden_{layer}"
            out = flow @ trained[f"{name}_map"] + trained[f"{name}_bias"]
            if len(inputs) > 1:
                spread = out.var(axis=0) + np.float32(_NORMAL_EPSILON)
                out = (out - out.mean(axis=0)) / numpy.sqrt(spread)
            out = out * trained[f"{name}_gain"] + trained[f"{name}_shift"]
            flow = numpy.concatenate([jax.nn.relu(out), flow], axis=1)
        return flow @ trained["logits_map"] + trained["logits_bias"]

    def spread_out(trained: Weights, inputs: Any, sizes: tuple[int, ...]) -> Any:
        if "rows" in trained:
            return trained["rows"]
        parts = numpy.split(logits(trained, inputs), np.cumsum(sizes)[:-1], axis=1)
        return numpy.concatenate([jax.nn.softmax(part, axis=1) for part in parts], axis=1)

    def members(sizes: tuple[int, ...]) -> np.ndarray:
        """Return which value is of which attribute, shape ``(attributes, values)``, as 0 and 1."""
        return np.repeat(np.eye(len(sizes), dtype=np.float32), sizes, axis=1)

    def product(left: Any, right: Any) -> Any:
        # A GPU would round the numbers first.
        return numpy.matmul(left, right, precision="highest")

    def along_simplexes(gradient: Any, sizes: tuple[int, ...]) -> Any:
        """Take out of a gradient what the projection would undo: the mean of an attribute's.

        Adam makes all its steps alike in size, so that a large mean would be all that it follows.
        """
        member = members(sizes)
        means = product(gradient, member.T) / np.array(sizes, np.float32)
        return gradient - product(means, member)

    def onto_simplexes(values: Any, sizes: tuple[int, ...]) -> Any:
        """Subtract from each attribute's values what leaves a positive part of sum 1.

        That is the mean excess of the values above it: begin with all, and drop those below.
        """
        member = members(sizes)

        def excess(above: Any) -> Any:
            total = product(numpy.where(above, values, 0), member.T)
            return product((total - 1) / product(above.astype(np.float32), member.T), member)

        def narrowed(state: Any) -> Any:
            above, _ = state
            fewer = above & (values > excess(above))
            return fewer, (fewer != above).any()

        everything = numpy.ones(values.shape, bool), True
        above, _ = jax.lax.while_loop(lambda state: state[1], narrowed, everything)
        return numpy.maximum(values - excess(above), 0)

    def project(weights: Weights, sizes: tuple[int, ...]) -> Weights:
        return {"rows": onto_simplexes(weights["rows"], sizes)} if "rows" in weights else weights

    def parted(weights: Weights) -> tuple[Weights, Any]:
        trained = {name: value for name, value in weights.items() if name != "inputs"}
        return trained, weights.get("inputs")

    def joined(trained: Weights, inputs: Any) -> Weights:
        return trained if inputs is None else {**trained, "inputs": inputs}

    def probabilities(weights: Weights, sizes: tuple[int, ...]) -> Any:
        return spread_out(*parted(weights), sizes)

    def begin(weights: Weights) -> Any:
        return adam.init(parted(weights)[0])

    def advance(
        weights: Weights, state: Any, gradient: Any, rate: Any, sizes: tuple[int, ...]
    ) -> tuple[Weights, Any, Any]:
        trained, inputs = parted(weights)
        if "rows" in weights:
            gradient = along_simplexes(gradient, sizes)
        _, pull = jax.vjp(lambda those: spread_out(those, inputs, sizes), trained)
        moves, state = adam.update(pull(gradient)[0], state)
        trained = jax.tree.map(lambda one, move: one - rate * move, trained, moves)
        trained = project(trained, sizes)
        return joined(trained, inputs), state, spread_out(trained, inputs, sizes)

    def average(held: Weights, weights: Weights, keep: Any) -> Weights:
        mixed: Weights = jax.tree.map(
            lambda one, other: keep * one + (1 - keep) * other, held, weights
        )
        return mixed

    return Programs(
        jax.jit(probabilities, static_argnames="sizes"),
        jax.jit(begin),
        jax.jit(advance, static_argnames="sizes"),
        jax.jit(average),
        jax.jit(project, static_argnames="sizes"),
    )
