"""The rows of a release: sampled, searched where the transcript says so, and repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.mechanisms.loops.transcript import Transcript, sampling_generator
from jam_dagster.models.base import Model
from jam_dagster.models.row_search import RowSearch, search_rows
from jam_dagster.tables import EncodedTable, Workload
from jam_dagster.tables.codes.repair import repaired


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
    return repaired(table, rng)


def _described(model: Model, described: object) -> tuple[RowSearch, Workload]:
    if not isinstance(described, Mapping) or not isinstance(described.get("workload"), Mapping):
        raise InputError("The transcript describes a search for rows without a workload.")
    settings = {name: value for name, value in described.items() if name != "workload"}
    return RowSearch.from_dict(settings), Workload.specified(model.domain, described["workload"])
