"""Marginals of a mixture of products, and how they move with it; arrays only.

A mixture of K products has for each attribute a table of K rows, each a distribution over the
attribute's values. Its marginal is the mean over the rows of their outer products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Products of a row's probabilities that are held at a time: 64 MB in single precision.
_BLOCK_CELLS = 1 << 24


def expected(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the marginal of a mixture of products, as fractions."""
    sizes = [table.shape[1] for table in tables]
    widest, others = _split(sizes)
    rows = len(tables[0])
    answer = np.zeros((math.prod(sizes[axis] for axis in others), sizes[widest]), tables[0].dtype)
    for block in _blocks(rows, len(answer)):
        left = _products([tables[axis][block] for axis in others], block)
        answer += left.T @ tables[widest][block]
    answer /= rows
    shaped = answer.reshape([sizes[axis] for axis in others] + [sizes[widest]])
    return np.moveaxis(shaped, -1, widest)


def pulled_back(tables: Sequence[np.ndarray], direction: np.ndarray) -> list[np.ndarray]:
    """Return the gradient of ``<direction, expected(tables)>`` by each of the tables."""
    sizes = [table.shape[1] for table in tables]
    widest, others = _split(sizes)
    rows = len(tables[0])
    matrix = np.moveaxis(direction, widest, -1).reshape(-1, sizes[widest]) / tables[0].dtype.type(
        rows
    )
    gradients = [np.empty_like(table) for table in tables]
    for block in _blocks(rows, len(matrix)):
        parts = [tables[axis][block] for axis in others]
        gradients[widest][block] = _products(parts, block) @ matrix
        pulled = tables[widest][block] @ matrix.T
        # Peel off the last of the other axes, again and again.
        for index in range(len(others) - 1, -1, -1):
            before = _products(parts[:index], block)
            pulled = pulled.reshape(len(pulled), before.shape[1], sizes[others[index]])
            gradients[others[index]][block] = np.einsum("kij,ki->kj", pulled, before)
            pulled = np.einsum("kij,kj->ki", pulled, parts[index])
    return gradients


def expected_cells(joined: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return single cells of a mixture's marginals, as fractions, shape ``(m,)``.

    `joined` has all attributes' tables side by side, shape ``(K, values)``, and `columns` those of
    each cell's values, shape ``(m, degree)``.
    """
    answers: np.ndarray = _product(_values_of(joined, columns)).mean(axis=1)
    return answers


def pulled_back_cells(joined: np.ndarray, columns: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the gradient of ``<direction, expected_cells(joined, columns)>`` by `joined`."""
    values = _values_of(joined, columns)
    weight = (direction / joined.dtype.type(len(joined)))[:, None]
    gradient = np.zeros((joined.shape[1], len(joined)), joined.dtype)
    for index, column in enumerate(columns.T.tolist()):
        others = [one for at, one in enumerate(values) if at != index]
        # One cell after another, for several may have the value.
        for value, pulled in zip(column, weight * _product(others), strict=True):
            gradient[value] += pulled
    return gradient.T


def _values_of(joined: np.ndarray, columns: np.ndarray) -> list[np.ndarray]:
    """Return the entries of each axis of the cells, in all rows: shapes ``(m, K)``."""
    turned = np.ascontiguousarray(joined.T)
    return [turned[column] for column in columns.T]


def _product(values: Sequence[np.ndarray]) -> np.ndarray:
    product: np.ndarray = np.ones(1, np.float32)
    for one in values:
        product = product * one
    return product


def _split(sizes: Sequence[int]) -> tuple[int, list[int]]:
    """Return the axis with most values, the last of them, and the other axes."""
    widest = max(range(len(sizes)), key=lambda axis: (sizes[axis], axis))
    return widest, [axis for axis in range(len(sizes)) if axis != widest]


def _blocks(rows: int, cells: int) -> list[slice]:
    step = max(1, _BLOCK_CELLS // cells)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _products(parts: Sequence[np.ndarray], block: slice) -> np.ndarray:
    """Return each row's products over all combinations of the parts' values."""
    if not parts:
        return np.ones((block.stop - block.start, 1), np.float32)
    products = parts[0]
    for part in parts[1:]:
        products = (products[:, :, None] * part[:, None, :]).reshape(len(products), -1)
    return products
