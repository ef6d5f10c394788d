"""Counts of marginals answer what the rows would, and nothing else."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from jam_dagster.common import operating_system
from jam_dagster.errors import InputError
from jam_dagster.tables import CategoricalAttribute, Domain, EncodedTable, Workload
from jam_dagster.tables.codes import block_counts
from jam_dagster.tables.codes import table as codes
from jam_dagster.tables.codes.block_counts import counted_marginals
from jam_dagster.tables.codes.table import count_blocks
from tests.full_disk import files_of_at_most

SIZES = (2, 3, 40, 5, 300, 7, 2)
DOMAIN = Domain(
    tuple(CategoricalAttribute(f"a{place}", tuple(range(size))) for place, size in enumerate(SIZES))
)
ASKED = Workload.all_k_way(DOMAIN, 3).downward_closure()


def table(records: int, seed: int = 0) -> EncodedTable:
    rng = np.random.default_rng(seed)
    return EncodedTable(DOMAIN, tuple(rng.integers(0, size, records) for size in SIZES))


def test_marginals_are_those_of_the_rows() -> None:
    records = table(500)
    chunks = [records.take(np.arange(start, start + 100)) for start in range(0, 500, 100)]
    counted = count_blocks(chunks, DOMAIN, ASKED)
    assert counted.records == 500
    assert [*counted.blocks] == sorted(Workload.all_k_way(DOMAIN, 3).cliques)
    expected, found = records.marginals([(), *ASKED]), counted.marginals([(), *ASKED])
    assert list(found) == list(expected)
    assert all(np.array_equal(found[one], expected[one]) for one in expected)
    assert "500" not in repr(counted)


def test_marginals_within_others_are_not_counted() -> None:
    asked = [("a0",), ("a0", "a1"), ("a2", "a3", "a4"), ("a2", "a4"), ("a1",)]
    assert counted_marginals(DOMAIN, asked) == [("a2", "a3", "a4"), ("a0", "a1")]
    assert counted_marginals(DOMAIN, reversed(asked)) == counted_marginals(DOMAIN, asked)


def test_another_marginal_is_refused() -> None:
    counted = count_blocks([table(10)], DOMAIN, [("a0", "a1"), ("a4",)])
    counted.check([("a0",), ("a1",), ("a4",)])
    for ask in (counted.marginal, lambda one: counted.check([one])):
        with pytest.raises(InputError, match="a2, a3 was not counted"):
            ask(("a2", "a3"))
        with pytest.raises(InputError, match="order of the domain"):
            ask(("a1", "a0"))


def test_too_many_cells_are_refused_before_a_row_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_counts, "_MOST_CELLS", 10_000)

    def rows():
        raise AssertionError("a row was read")
        yield

    with pytest.raises(InputError, match=r"more than the 10,000 that are counted in one pass"):
        count_blocks(rows(), DOMAIN, combinations(DOMAIN.names, 3))


def test_a_large_table_keeps_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(100)
    wanted = rows.marginals(ASKED)
    monkeypatch.setattr(codes, "MANY", 100)
    counted = rows.marginals(ASKED)
    assert all((counted[one] == wanted[one]).all() for one in ASKED)
    assert {one.dtype for one in counted.values()} == {one.dtype for one in wanted.values()}
    monkeypatch.setattr(codes, "count_blocks", pytest.fail)
    counted[ASKED[-1]][...] = 0
    assert (rows.marginal(ASKED[-1]) == wanted[ASKED[-1]]).all()


def test_many_counts_are_kept_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(100)
    wanted = rows.marginals(ASKED)
    monkeypatch.setattr(codes, "MANY", 100)
    monkeypatch.setattr(block_counts, "HELD_CELLS", 1000)
    counted = rows.marginals(ASKED)
    assert all((counted[one] == wanted[one]).all() for one in ASKED)
    monkeypatch.setattr(codes, "count_blocks", pytest.fail)
    longest = max(ASKED, key=len)
    assert np.shares_memory(rows.marginal(longest), counted[longest])
    assert not counted[longest].flags.writeable


def test_many_counts_are_neither_made_again_nor_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(100)
    wanted = rows.marginals(ASKED)
    monkeypatch.setattr(codes, "MANY", 100)
    monkeypatch.setattr(codes, "HELD_CELLS", 1000)
    few = [one for one in ASKED if "a4" not in one]
    rows.marginals(few)
    made, count = [], codes.count_blocks
    monkeypatch.setattr(
        codes, "count_blocks", lambda *given, **rest: made.append(given[2]) or count(*given, **rest)
    )
    for _ in range(2):
        counted = rows.marginals(ASKED)
        assert list(counted) == list(ASKED)
        assert all((counted[one] == wanted[one]).all() for one in ASKED)
    assert made == [[one for one in ASKED if "a4" in one]] * 2


def test_many_counts_wait_in_a_file_without_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = table(500).marginals(ASKED)
    monkeypatch.setattr(block_counts, "_FILED_CELLS", 1000)
    monkeypatch.setattr(block_counts, "HELD_CELLS", 1000)
    rows = table(500)
    for folder, room, in_memory in (
        (tmp_path, 1 << 30, False),
        (tmp_path, 10_000, True),
        (tmp_path / "none", 1 << 30, True),
    ):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with files_of_at_most(room):
            counted = count_blocks([rows], DOMAIN, ASKED)
        assert [*tmp_path.iterdir()] == []
        assert {one.flags.writeable for one in counted.blocks.values()} == {in_memory}
        found = counted.marginals(ASKED)
        assert all(np.array_equal(found[one], wanted[one]) for one in ASKED)
        largest = max(counted.blocks, key=DOMAIN.size)
        assert np.shares_memory(found[largest], counted.blocks[largest])
        assert counted.contents() == count_blocks([table(500)], DOMAIN, ASKED).contents()


def test_counts_are_kept_in_half_of_a_control_group_s_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "_CONTROL", tmp_path)
    monkeypatch.setattr(block_counts, "MANY", 500)
    monkeypatch.setattr(codes, "MANY", 500)
    cells, rows = sum(map(DOMAIN.size, ASKED)), table(500)
    wanted = rows.marginals(ASKED)
    for memory, kept in ((8 * cells, True), (8 * cells - 8, False)):
        (tmp_path / "memory.max").write_text(f"{memory}\n")
        assert block_counts.can_be_kept(DOMAIN, ASKED) is kept
        limited = table(500)
        found = limited.marginals(ASKED)
        assert all(np.array_equal(found[one], wanted[one]) for one in ASKED)
        assert (limited._kept.held is not None) is kept
