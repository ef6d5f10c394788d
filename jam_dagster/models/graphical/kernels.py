"""Programs of dense-table operations, run in C where it was compiled, else in NumPy.

A program is a list of operations on fixed arrays, planned once and run many times. One call runs
all of it, so that Python's cost does not grow with the number of tables.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from jam_dagster.common.compiled import compiled

Table = npt.NDArray[np.float64]
Axes = tuple[int, ...]

MOST = 32
"""Most axes, sources or targets of an operation, as in kernels.c."""

VERSION = 8
"""Version of the interface between this module and kernels.c."""

BLOCK = 8
"""Columns that are added side by side, as in kernels.c."""

LARGE = 2**18
"""The least number of cells of an operation for two threads, as in kernels.c."""

LIBRARY = Path(__file__).with_name("_kernels.so")


class Mode(IntEnum):
    """The role of an operation's table."""

    READ = 0
    """Leave it unchanged; the targets receive the sums of table times sources."""
    SCALE = 1
    """Multiply it by the sources."""
    ASSIGN = 2
    """Set it to the product of the sources."""
    RATIO = 3
    """Set it to the first source over the second, zero if both are."""


@dataclass(frozen=True)
class Operand:
    """A contiguous table and the attribute of each of its axes."""

    table: Table
    axes: Axes


@dataclass(frozen=True)
class Operation:
    """One pass over a table.

    The axes of sources and targets are some of the axes of the table `of`, in the same order. Old
    values of targets are lost.
    """

    mode: Mode
    of: Operand
    sources: tuple[Operand, ...] = ()
    targets: tuple[Operand, ...] = ()


class _Struct(ctypes.Structure):
    _fields_ = [
        ("table", ctypes.c_void_p),
        ("mode", ctypes.c_int64),
        ("factor", ctypes.c_double),
        ("axes", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("sources", ctypes.c_int64),
        ("source", ctypes.c_void_p),
        ("source_strides", ctypes.c_void_p),
        ("targets", ctypes.c_int64),
        ("target", ctypes.c_void_p),
        ("target_strides", ctypes.c_void_p),
        ("target_cells", ctypes.c_void_p),
        ("spare", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled kernels; None without any, or if ``JAM_KERNELS=numpy`` is set."""
    loaded = compiled(LIBRARY, VERSION)
    return None if loaded is None else _declared(loaded)


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the arguments of each kernel."""
    loaded.jam_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    loaded.jam_run.restype = None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    loaded.jam_contract.argtypes = [
        *(pointer, number, pointer),
        *(pointer, pointer),
        *(pointer, pointer, number, number),
    ]
    loaded.jam_contract.restype = None
    loaded.jam_distance.argtypes = [
        *(pointer, pointer, number, number, pointer),
        ctypes.c_double,
    ]
    loaded.jam_distance.restype = ctypes.c_double
    loaded.jam_swap_rows.argtypes = [
        *(pointer, pointer, ctypes.c_int32),
        *(pointer, number, pointer, number, number),
    ]
    loaded.jam_swap_rows.restype = number
    loaded.jam_expected_gain.argtypes = [
        *(pointer, pointer, number, number, number, pointer),
        *(pointer, pointer, number),
        *(ctypes.c_double, ctypes.c_double, pointer),
    ]
    loaded.jam_expected_gain.restype = ctypes.c_double
    loaded.jam_grown.argtypes = [
        *(number, number, number, pointer),
        *(pointer, pointer, pointer),
        *(pointer, pointer, pointer),
        *(pointer, pointer, number, pointer, pointer),
    ]
    loaded.jam_grown.restype = None
    loaded.jam_grouped.argtypes = [number, number, *(pointer,) * 5]
    loaded.jam_grouped.restype = None
    loaded.jam_stratified.argtypes = [number, number, *(pointer,) * 5, number, pointer]
    loaded.jam_stratified.restype = None
    return loaded


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def blas_architecture() -> str:
    """Return the processor type that NumPy's BLAS uses here, which affects rounding."""
    found = (one for one in _thread_pools().info() if one.get("user_api") == "blas")
    return next((str(one.get("architecture", "unknown")) for one in found), "none")


def simd_extensions() -> list[str]:
    """Return the instructions that NumPy found beyond those that it always uses."""
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    return [str(name) for name in config.get("SIMD Extensions", {}).get("found", [])]


def one_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread: its products here are small, and its idle threads spin."""
    limited: AbstractContextManager[object] = _thread_pools().limit(limits=1, user_api="blas")
    return limited


@dataclass
class Program:
    """Operations that are run in order, again and again.

    Every array must stay at its place in memory.
    """

    operations: Sequence[Operation]
    compiled: bool | None = None
    _numbers: list[int] = field(init=False, repr=False)
    _structs: Any = field(init=False, repr=False, default=None)
    _kept: list[Any] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        parts: list[Operation] = []
        self._numbers = []
        for whole in self.operations:
            self._numbers.append(len(parts))
            parts += _split(whole)
        self.operations = parts
        loaded = library()
        # A table with so many axes of two or more values does not fit into memory.
        narrow = all(len(_long(part.of)) <= MOST for part in parts)
        if loaded is not None and self.compiled is not False and narrow:
            self._run = loaded.jam_run
            self._structs = (_Struct * len(self.operations))()
            for struct, operation in zip(self._structs, self.operations, strict=True):
                self._fill(struct, operation)

    def run(self, factors: dict[int, float] | None = None) -> None:
        """Run all operations; `factors` multiplies the tables of some, by number as given."""
        by_part = {self._numbers[number]: factor for number, factor in (factors or {}).items()}
        if self._structs is None:
            for number, operation in enumerate(self.operations):
                _run_in_numpy(operation, by_part.get(number, 1.0))
            return
        for number, factor in by_part.items():
            self._structs[number].factor = factor
        self._run(ctypes.addressof(self._structs), len(self._structs))

    def _fill(self, struct: _Struct, operation: Operation) -> None:
        def keep(array: npt.NDArray[Any]) -> int:
            self._kept.append(array)
            return array.ctypes.data

        def pointers(operands: Sequence[Operand]) -> int:
            return keep(np.array([keep(o.table) for o in operands], dtype=np.uintp))

        def strides(operands: Sequence[Operand]) -> int:
            rows = [_strides(operand, axes) for operand in operands]
            return keep(np.array(rows, dtype=np.int64))

        struct.table = keep(operation.of.table)
        struct.mode = int(operation.mode)
        struct.factor = 1.0
        axes = _long(operation.of)
        sizes = [n for n in operation.of.table.shape if n > 1]
        if operation.mode is Mode.RATIO:
            sizes = [operation.of.table.size]
        struct.axes = len(sizes)
        struct.sizes = keep(np.array(sizes, dtype=np.int64))
        struct.sources = len(operation.sources)
        struct.source = pointers(operation.sources)
        struct.source_strides = strides(operation.sources)
        struct.targets = len(operation.targets)
        struct.target = pointers(operation.targets)
        struct.target_strides = strides(operation.targets)
        cells = [operand.table.size for operand in operation.targets]
        struct.target_cells = keep(np.array(cells, dtype=np.int64))
        # The table that a second thread sums onto, and a row for each thread.
        large = operation.of.table.size >= LARGE
        spare = [keep(np.empty(n)) if large else 0 for n in cells]
        struct.spare = keep(np.array(spare, dtype=np.uintp))
        struct.row = keep(np.empty(2 * (sizes[-1] if sizes else 1)))


def contract(
    table: Operand, other: Operand, keep: Axes, fresh: Axes, *, compiled: bool | None = None
) -> Operand:
    """Multiply a table with another, and sum out what is not kept."""
    sizes = dict(zip(table.axes, table.table.shape, strict=True))
    sizes |= dict(zip(other.axes, other.table.shape, strict=True))
    product = Operand(np.empty([sizes[axis] for axis in (*keep, *fresh)]), (*keep, *fresh))
    loaded, axes = library(), _long(table)
    if loaded is None or compiled is False or len(axes) > MOST:
        product.table[...] = _contract_in_numpy(table, other, keep, fresh)
        return product
    columns = math.prod(sizes[axis] for axis in fresh)
    summed = [axis for axis in axes if axis not in keep]
    if summed and axes[-1] in keep and columns >= BLOCK and table.table.size * columns > LARGE:
        # Along a summed axis the inner loop adds in registers; a copy is cheap compared with it.
        inner = max(summed, key=lambda axis: (sizes[axis], axis))
        order = [axis for axis in table.axes if axis != inner] + [inner]
        moved = table.table.transpose([table.axes.index(axis) for axis in order])
        table = Operand(np.ascontiguousarray(moved), tuple(order))
        axes = _long(table)
    counted = ctypes.c_int64 * len(axes)
    loaded.jam_contract(
        _address(table.table),
        len(axes),
        counted(*(sizes[axis] for axis in axes)),
        _address(other.table),
        counted(*_strides(other, axes)),
        _address(product.table),
        counted(*_strides(product, axes)),
        product.table.size,
        columns,
    )
    return product


def distance(
    counts: npt.NDArray[Any], model: Table, total: float, *, compiled: bool | None = None
) -> float:
    """Return ``||counts - total * model||_1`` over all cells."""
    loaded, bytes_ = library(), counts.itemsize
    fits = counts.dtype.kind == "i" and bytes_ in (4, 8) and model.ndim <= MOST
    if loaded is None or compiled is False or not fits:
        return float(np.abs(counts - model * total).sum())
    axes = zip(
        model.shape,
        (stride // model.itemsize for stride in model.strides),
        (stride // bytes_ for stride in counts.strides),
        strict=True,
    )
    # In the order of the model's cells, which are the wider ones.
    ordered = sorted(axes, key=lambda axis: -axis[1])
    layout = [number for axis in ordered for number in axis]
    found: float = loaded.jam_distance(
        _address(model),
        _address(counts),
        bytes_,
        len(ordered),
        (ctypes.c_int64 * len(layout))(*layout),
        total,
    )
    return found


def _address(table: npt.NDArray[Any]) -> int:
    address: int = table.__array_interface__["data"][0]
    return address


def _contract_in_numpy(table: Operand, other: Operand, keep: Axes, fresh: Axes) -> Table:
    """Multiply one matrix for each value of the axes that both have and that are kept."""
    both = [axis for axis in keep if axis in other.axes]
    rest = [axis for axis in keep if axis not in other.axes]
    summed = [axis for axis in other.axes if axis not in keep and axis not in fresh]
    alone = [axis for axis in table.axes if axis not in keep and axis not in other.axes]
    sizes = dict(zip(table.axes, table.table.shape, strict=True))
    sizes |= dict(zip(other.axes, other.table.shape, strict=True))

    def matrices(operand: Operand, *parts: Sequence[int]) -> Table:
        order = [operand.axes.index(axis) for axes in parts for axis in axes]
        shape = [math.prod(sizes[axis] for axis in axes) for axes in parts]
        return operand.table.transpose(order).reshape(shape)

    lean = table
    if alone:
        lost = tuple(table.axes.index(axis) for axis in alone)
        lean = Operand(table.table.sum(axis=lost), tuple(a for a in table.axes if a not in alone))
    products = np.matmul(matrices(lean, both, rest, summed), matrices(other, both, summed, fresh))
    order = [*both, *rest, *fresh]
    table_like: Table = products.reshape([sizes[axis] for axis in order])
    return table_like.transpose([order.index(axis) for axis in (*keep, *fresh)])


def _split(operation: Operation) -> list[Operation]:
    """Return operations that do the same with at most `MOST` sources and targets each."""
    parts = []
    mode, sources, targets = operation.mode, operation.sources, operation.targets
    while len(sources) > MOST:
        if mode is Mode.READ:
            raise ValueError(f"a table that is only read has at most {MOST} sources")
        parts.append(Operation(mode, operation.of, sources[:MOST]))
        mode, sources = Mode.SCALE, sources[MOST:]
    parts.append(Operation(mode, operation.of, sources, targets[:MOST]))
    for start in range(MOST, len(targets), MOST):
        again = sources if mode is Mode.READ else ()
        parts.append(Operation(Mode.READ, operation.of, again, targets[start : start + MOST]))
    return parts


def _long(operand: Operand) -> Axes:
    """Return the axes along which there is more than one cell."""
    shape = operand.table.shape
    return tuple(axis for axis, size in zip(operand.axes, shape, strict=True) if size > 1)


def _strides(operand: Operand, axes: Axes) -> list[int]:
    """Return the stride in cells along each of `axes`, 0 where the operand lacks it."""
    stride, step = {}, 1
    for axis, size in zip(reversed(operand.axes), reversed(operand.table.shape), strict=True):
        stride[axis] = step
        step *= size
    return [stride.get(axis, 0) for axis in axes]


def _run_in_numpy(operation: Operation, factor: float) -> None:
    table, axes = operation.of.table, operation.of.axes
    if operation.mode is Mode.RATIO:
        above, below = (source.table for source in operation.sources)
        table[...] = 0.0
        np.divide(above, below, out=table, where=below > 0)
        return
    product = table
    out = np.empty_like(table) if operation.mode is Mode.READ else table
    if operation.mode is Mode.ASSIGN:
        table[...] = 1.0
    if factor != 1.0:
        product = np.multiply(product, factor, out=out)
    for source in operation.sources:
        spread = source.table.reshape(
            [n if a in source.axes else 1 for a, n in zip(axes, table.shape, strict=True)]
        )
        product = np.multiply(product, spread, out=out)
    for target in operation.targets:
        lost = tuple(i for i, axis in enumerate(axes) if axis not in target.axes)
        target.table[...] = product.sum(axis=lost) if lost else product
