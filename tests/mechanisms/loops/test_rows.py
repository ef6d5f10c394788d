"""The rows of a run: sampled, and searched where its transcript says so."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import JamPgm, MechanismResult, Transcript
from jam_dagster.mechanisms.loops import rows
from jam_dagster.mechanisms.loops.rows import release_rows, sample_rows, with_chunks, with_search
from jam_dagster.mechanisms.loops.transcript import sampling_generator, sampling_seed
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.models.row_search import RowSearch
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload, decode, encode
from jam_dagster.tables.sources.table_file import ChunkFormat


@pytest.fixture
def made(private, public) -> MechanismResult:
    draws = Draws(SeededNoise(1), UnledgeredAccount(1.0))
    workload = Workload.all_k_way(private.domain, 2)
    return JamPgm(rounds=3).run(private, public, workload, draws)


def test_rows_are_sampled_alone_where_nothing_is_said(made):
    found = sample_rows(made.model, made.transcript)
    plain = made.model.sample(made.transcript.records, sampling_generator(made.transcript))
    assert found.to_frame().equals(plain.to_frame())


def test_no_row_has_an_unreadable_value():
    """Who encodes the file of a release finds the codes that it has."""
    content = {"attributes": {"a": {"edges": [0, 1, 2], "nullable": True, "unreadable": "apart"}}}
    domain = Domain.from_dict(content | {"repairs": [{"not_null": ["a"]}]})
    rng = np.random.default_rng(0)
    rows_of_a_model = EncodedTable(domain, (rng.integers(0, 4, 100),))
    codes = rows.finished(rows_of_a_model, rng)
    assert set(codes.column("a").tolist()) == {0, 1, 3}
    assert encode(decode(codes, rng), domain).column("a").tolist() == codes.column("a").tolist()


def test_a_search_is_stored_with_the_transcript_and_made_again(made, tmp_path):
    transcript = with_search(made.transcript, {"degree": 2}, RowSearch(offers=7))
    transcript.save(tmp_path)
    again = Transcript.load(tmp_path)
    assert again.search == {"lookups": 150_000_000, "offers": 7, "cells": 2**23} | {
        "workload": {"degree": 2}
    }
    # Few rows, which sampling alone does not round as well as they allow.
    searched, same, alone = (
        sample_rows(made.model, one, np.random.default_rng(0), 15)
        for one in (transcript, again, made.transcript)
    )
    assert searched.to_frame().equals(same.to_frame())
    pairs = Workload.all_k_way(made.model.domain, 2).cliques
    distances = [sampling_distance(made.model, one, pairs)[0] for one in (searched, alone)]
    assert distances[0] < distances[1]


def test_a_transcript_without_a_search_does_not_name_it(made, tmp_path):
    made.transcript.save(tmp_path)
    assert '"search"' not in (tmp_path / "transcript.json").read_text()
    assert Transcript.load(tmp_path).search is None


def test_rows_and_generator_may_be_given(made):
    transcript = with_search(made.transcript, {"degree": 1})
    assert sample_rows(made.model, transcript, np.random.default_rng(3), 11).records == 11


def test_many_rows_come_in_chunks_of_their_own_seeds(made, tmp_path, monkeypatch):
    (whole,) = release_rows(made.model, made.transcript)
    assert whole.codes.to_frame().equals(sample_rows(made.model, made.transcript).to_frame())
    assert with_chunks(made.transcript) is made.transcript
    limits = {"MOST_AT_ONCE": made.transcript.records - 1, "CHUNK_ROWS": 5, "LEAST_CHUNK_ROWS": 1}
    for name, limit in limits.items():
        monkeypatch.setattr(rows, name, limit)
    with_chunks(with_search(made.transcript, {"degree": 1})).save(tmp_path)
    again = Transcript.load(tmp_path)
    assert (again.chunk_rows, again.search) == (5, None)
    chunks = list(release_rows(made.model, again))
    sizes = [chunk.codes.records for chunk in chunks]
    assert sum(sizes) == made.transcript.records
    assert max(sizes) <= 5
    assert max(sizes) - min(sizes) <= 1
    # The second chunk is what it is without the first.
    seed = np.random.SeedSequence(sampling_seed(again), spawn_key=(1,))
    alone = sample_rows(made.model, again, np.random.default_rng(seed), sizes[1])
    assert chunks[1].codes.to_frame().equals(alone.to_frame())


@pytest.mark.slow
def test_processes_make_the_same_chunks(made, monkeypatch):
    """Two are started, for what they import and compute is what is compared."""
    transcript = replace(made.transcript, chunk_rows=made.transcript.records // 3)
    monkeypatch.setattr(rows, "LEAST_CHUNK_ROWS", 1)
    monkeypatch.setattr(rows, "_processes", lambda model, sizes: 2)
    form = ChunkFormat(made.model.domain)
    found = list(release_rows(made.model, transcript, form=form))
    monkeypatch.setattr(rows, "_processes", lambda model, sizes: 1)
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    here = list(release_rows(made.model, transcript, form=form))
    assert len(found) > 2
    for one, other in zip(found, here, strict=True):
        assert one.codes.to_frame().equals(other.codes.to_frame())
        assert one.table.equals(other.table)
        assert one.table.schema.equals(other.table.schema, check_metadata=True)


def test_processes_are_as_many_as_rows_cores_and_memory_allow(made, monkeypatch):
    def processes(millions, cores, free):
        monkeypatch.setattr(rows, "free_cores", lambda: cores)
        monkeypatch.setattr(rows, "free_memory", lambda: free)
        return rows._processes(made.model, [250_000] * 4 * millions)

    assert processes(3, 64, 2**40) == 1
    assert processes(10, 64, 2**40) == 5
    assert processes(10, 2, 2**40) == 2
    assert processes(100, 64, 2**40) == 8
    assert processes(100, 64, 2**31) in {6, 7}
    assert processes(100, 64, 0) == 1
    # Longer texts take more.
    monkeypatch.setattr(rows, "_CELL_BYTES", 10_000)
    assert processes(100, 64, 2**35) < 8
    monkeypatch.setattr(rows, "free_cores", lambda: os.getloadavg_of_another_system())
    assert rows._processes(made.model, [250_000] * 400) == 1


def test_an_idle_machine_needs_the_memory_of_its_processes(made, monkeypatch):
    def needed(records, cores):
        monkeypatch.setattr(rows, "cores", lambda: cores)
        transcript = replace(made.transcript, records=records, chunk_rows=250_000)
        return rows.processes_bytes(made.model, transcript)

    monkeypatch.setattr(rows, "free_memory", lambda: 2**40)
    # Others leave it one core at the moment.
    monkeypatch.setattr(rows, "free_cores", lambda: 1)
    two = needed(5_000_000, 2)
    assert two > 2 * 2**27
    assert needed(5_000_000, 64) == two
    assert needed(10_000_000, 4) == 2 * two
    assert needed(3_000_000, 64) == needed(50_000_000, 1) == 0


@pytest.mark.parametrize("chunk_rows", [True, 0, 99, 10**7, "many"])
def test_what_no_chunks_are_is_named(made, chunk_rows):
    with pytest.raises(InputError, match="chunk_rows must be a whole number from 100"):
        next(release_rows(made.model, replace(made.transcript, chunk_rows=chunk_rows)))


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("all", "a search for rows without a workload"),
        ({"lookups": 1, "offers": 1, "cells": 1}, "a search for rows without a workload"),
        ({"workload": {"degree": 2}}, "needs lookups, offers, cells"),
        (RowSearch().to_dict() | {"workload": {"degree": 0}}, "degree of a workload"),
        (RowSearch().to_dict() | {"workload": {}}, "at least one marginal"),
        (RowSearch().to_dict() | {"offers": "many", "workload": {"degree": 2}}, "number of offers"),
    ],
)
def test_what_no_search_is_is_named(made, search, message):
    transcript = with_search(made.transcript, {"degree": 1})
    object.__setattr__(transcript, "search", search)
    with pytest.raises(InputError, match=message):
        sample_rows(made.model, transcript)
