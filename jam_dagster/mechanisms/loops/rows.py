"""The rows of a release: sampled, searched where the transcript says so, repaired and decoded.

Many rows are sampled a chunk at a time, each chunk with a generator of its own, so memory does not
grow with them. The transcript says so, because the chunks decide which rows there are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.operating_system import free_memory
from jam_dagster.common.worker_processes import cores, each_result, free_cores
from jam_dagster.errors import InputError
from jam_dagster.mechanisms.loops.transcript import (
    Transcript,
    sampling_generator,
    sampling_seed,
)
from jam_dagster.models.base import Model
from jam_dagster.models.row_search import RowSearch, search_rows
from jam_dagster.tables import EncodedTable, Workload, decode
from jam_dagster.tables.codes.marginals import Columns
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.codes.roots import decode_two, exchanged

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from jam_dagster.tables.sources.table_file import ChunkFormat

MOST_AT_ONCE = 1_000_000
"""The most rows that are sampled at once, as the search for rows needs them."""

CHUNK_ROWS = 250_000
"""The most rows of a chunk. Smaller ones round more: expectations become whole rows in each."""

LEAST_CHUNK_ROWS = 100
"""The least that a transcript may say: who verifies a release samples every chunk again."""

# A process takes a second to start, and for a million rows; this one writes what eight make.
_ROWS_A_PROCESS = 2_000_000
_MOST_PROCESSES = 8

# Memory of a process in addition to its chunk, and of a cell in addition to its text while chunks
# are made, as Arrow's and as pandas's: that of 60 and of 80 columns, measured.
_PROCESS_BYTES = 2**27
_CELL_BYTES = 26
_SHARE_OF_MEMORY = 0.5


@dataclass(frozen=True)
class SampledRows:
    """Some rows of a release, as they were sampled and repaired, and with their values.

    If the release has two tables, `table` has the roots, and `children` the rows of the other one.
    """

    codes: EncodedTable
    table: pd.DataFrame | pa.Table
    children: pd.DataFrame | None = None


def with_search(
    transcript: Transcript, workload: Mapping[str, Any], search: RowSearch | None = None
) -> Transcript:
    """Return a transcript by which rows are searched.

    Parameters
    ----------
    transcript
        Of a run that has ended.
    workload
        The workload, as `Workload.specified` takes it.
    search
        How far the search goes; by default as far as `RowSearch` says.
    """
    settings = (search or RowSearch()).to_dict()
    return replace(transcript, search={**settings, "workload": dict(workload)})


def with_chunks(transcript: Transcript) -> Transcript:
    """Return a transcript by which rows are sampled a chunk at a time, where they are many.

    They are not searched: a search reaches few of them.
    """
    if transcript.records <= MOST_AT_ONCE:
        return transcript
    return replace(transcript, chunk_rows=CHUNK_ROWS, search=None)


def release_rows(
    model: Model,
    transcript: Transcript,
    seed: int | None = None,
    *,
    form: ChunkFormat | None = None,
) -> Generator[SampledRows, None, None]:
    """Yield the table of a run a chunk at a time: the same for the same transcript.

    Many chunks are made in processes of their own, as cores and memory allow. These end when the
    generator is closed.

    Parameters
    ----------
    model, transcript
        Of the run.
    seed
        Of the generators; None: the release's own, `sampling_seed`.
    form
        Of the file that chunks are written to: their tables are Arrow's then.

    Raises
    ------
    InputError
        If the transcript describes no search or no chunks that can be made.
    """
    seed = sampling_seed(transcript) if seed is None else seed
    if transcript.chunk_rows is None:
        rng = np.random.default_rng(seed)
        codes = sample_rows(model, transcript, rng)
        if codes.domain.children is None:
            yield SampledRows(codes, decode(codes, rng))
        else:
            roots, children = decode_two(codes, rng)
            yield SampledRows(codes, roots, children=children)
        return
    sizes = chunk_sizes(transcript)
    processes = _processes(model, sizes)
    chunks = _Chunks(model, transcript, seed, form, tuple(accumulate(sizes, initial=0)))
    for columns, table in each_result(chunks.made, len(sizes), processes):
        yield SampledRows(EncodedTable(model.domain, tuple(columns)), table)


@dataclass(frozen=True)
class _Chunks:
    """A maker of each chunk of a table by itself, here or in another process."""

    model: Model
    transcript: Transcript
    seed: int
    form: ChunkFormat | None
    starts: tuple[int, ...]

    def made(self, number: int) -> tuple[Columns, pd.DataFrame | pa.Table]:
        start, end = self.starts[number : number + 2]
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number,)))
        codes = sample_rows(self.model, self.transcript, rng, end - start)
        table = decode(codes, rng, before=start)
        return codes.columns, table if self.form is None else self.form.arrow(table)


def processes_bytes(model: Model, transcript: Transcript) -> float:
    """Return the memory of the processes that make a release's chunks on an idle machine.

    It is 0 if this process makes them.
    """
    sizes = chunk_sizes(transcript)
    processes = _processes(model, sizes, idle=True)
    return processes * _process_bytes(model, sizes) if processes > 1 else 0.0


def _processes(model: Model, sizes: Sequence[int], *, idle: bool = False) -> int:
    """Return how many processes make chunks, or would on an idle machine; one is this process."""
    try:
        free = cores() if idle else free_cores()
        suffices = int(_SHARE_OF_MEMORY * free_memory() / _process_bytes(model, sizes))
        return max(1, min(sum(sizes) // _ROWS_A_PROCESS, _MOST_PROCESSES, free, suffices))
    except (OSError, AttributeError, LookupError, ValueError):
        # This system does not say.
        return 1


def _process_bytes(model: Model, sizes: Sequence[int]) -> float:
    domain = model.domain
    texts = sum(max(map(len, attribute.labels)) for attribute in domain.attributes)
    row = _CELL_BYTES * len(domain.columns) + texts
    return _PROCESS_BYTES + 3 * model.size_mb * 1e6 + max(sizes) * row


def chunk_sizes(transcript: Transcript) -> list[int]:
    """Return the numbers of rows of the chunks, which differ by one at most."""
    most = transcript.chunk_rows
    whole_number = isinstance(most, int) and not isinstance(most, bool)
    if most is None or not whole_number or not LEAST_CHUNK_ROWS <= most <= MOST_AT_ONCE:
        raise InputError(
            f"The transcript's chunk_rows must be a whole number from {LEAST_CHUNK_ROWS} to"
            f" {MOST_AT_ONCE:,}, got {most!r}."
        )
    number = -(-transcript.records // most)
    whole, more = divmod(transcript.records, number)
    return [whole + (index < more) for index in range(number)]


def sample_rows(
    model: Model,
    transcript: Transcript,
    rng: np.random.Generator | None = None,
    rows: int | None = None,
) -> EncodedTable:
    """Return the table of a run: the same for the same transcript.

    Parameters
    ----------
    model
        The model of the run.
    transcript
        The transcript of the run.
    rng
        Random generator; None: the release's own, `sampling_generator`.
    rows
        Number of rows; None: as many as the transcript says.

    Raises
    ------
    InputError
        If the transcript describes no search that can be made.
    """
    rng = sampling_generator(transcript) if rng is None else rng
    table = model.sample(transcript.records if rows is None else rows, rng)
    if transcript.search is not None:
        search, workload = _described(model, transcript.search)
        table = search_rows(model, table, workload, rng, search).table
    return finished(table, rng)


def finished(sampled: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    """Return sampled rows as a release has them: with their repairs, and children in any order.

    None has an unreadable value: these are missing.
    """
    sampled = sampled.as_released()
    if sampled.domain.children is not None:
        sampled = exchanged(sampled, rng)
    return repaired(sampled, rng)


def _described(model: Model, described: object) -> tuple[RowSearch, Workload]:
    if not isinstance(described, Mapping) or not isinstance(described.get("workload"), Mapping):
        raise InputError("The transcript describes a search for rows without a workload.")
    settings = {name: value for name, value in described.items() if name != "workload"}
    return RowSearch.from_dict(settings), Workload.specified(model.domain, described["workload"])
