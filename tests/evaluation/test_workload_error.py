"""Workload error against hand-made tables, the papers' numbers and its privacy claims."""

from __future__ import annotations

import importlib
import json
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import (
    ChargedBeforeError,
    DomainError,
    InputError,
    LostDrawError,
    SpecificationError,
)
from jam_dagster.evaluation import WorkloadErrors, workload_error
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, UnledgeredAccount
from jam_dagster.privacy.noise.seeded import SeededNoise
from jam_dagster.privacy.sensitivity import REPLACE_ONE
from jam_dagster.tables import Domain, EncodedTable, Workload, marginal_blocks
from jam_dagster.tables import encode as encode_table
from tests.tiers import first_quick


class Purse:
    """An account in memory that keeps what was charged."""

    def __init__(self, reserved: float) -> None:
        self.reserved = reserved
        self.charges: dict[str, float] = {}
        self.digests: dict[str, str] = {}
        self.closed = False

    def charged(self, step: str) -> float | None:
        return self.charges.get(step)

    def charge(self, step: str, rho: float) -> None:
        if step in self.charges:
            raise ChargedBeforeError(step)
        self.charges[step] = rho

    def confirm(self, step: str, digest: str) -> None:
        assert step in self.charges
        self.digests[step] = digest

    def confirmed(self, step: str) -> bool:
        return step in self.digests


class RecordingNoise(SeededNoise):
    """Seeded noise that keeps what it was asked, and like exact noise repeats nothing."""

    repeatable = False

    def __init__(self) -> None:
        super().__init__(3)
        self.asked: list[tuple[np.ndarray, float, float]] = []

    def gaussian_values(
        self, values: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        self.asked.append((np.array(values), l2_sensitivity, rho))
        return super().gaussian_values(values, l2_sensitivity, rho, step)


def table(domain: Domain, rows: list[tuple[int, ...]]) -> EncodedTable:
    return EncodedTable.from_frame(domain, pd.DataFrame(rows, columns=list(domain.names)))


def random_table(domain: Domain, records: int, seed: int) -> EncodedTable:
    rng = np.random.default_rng(seed)
    columns = tuple(rng.integers(0, size, records) for size in domain.shape)
    return EncodedTable(domain, columns)


@pytest.fixture
def domain() -> Domain:
    return Domain.from_sizes({"a": 2, "b": 2})


@pytest.fixture
def tables(domain: Domain) -> tuple[EncodedTable, EncodedTable, EncodedTable]:
    private = table(domain, [(0, 0), (0, 0), (1, 1), (1, 1)])
    synthetic = table(domain, [(0, 0), (0, 1), (1, 0), (1, 1)])
    public = table(domain, [(0, 0), (0, 0)])
    return private, synthetic, public


def test_errors_of_tables_small_enough_to_do_by_hand(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    workload = Workload.of(domain, [["a", "b"], ["a"]])
    error = workload_error(*tables, workload, mode="exact")

    # Synthetic: all four cells of (a, b) are off by one of four records; a is right.
    assert error.synthetic is not None
    assert error.synthetic.per_marginal == {("a", "b"): 1.0, ("a",): 0.0}
    # The pair is the same at its groups. The mean product of its scores is 1 in the private table,
    # and 0 here.
    lines = {"pairs": 1.0, "association": 1.0, "correlation": 1.0}
    assert {name: getattr(error.synthetic, name) for name in lines} == lines
    assert (error.synthetic.mean, error.synthetic.maximum) == (0.5, 1.0)
    # Public, two rows scaled to four: everybody at (0, 0), where half of them belong.
    assert error.public is not None
    assert error.public.per_marginal == {("a", "b"): 1.0, ("a",): 1.0}
    # Independent: one record in every cell, just like the synthetic table.
    assert error.independent == error.synthetic
    assert error.restricted
    assert error.to_dict() == {
        "synthetic": {"mean": 0.5, "max": 1.0, **lines},
        # One cell says nothing on a relation, so it is raked to independence.
        "public": pytest.approx({"mean": 1.0, "max": 1.0, **lines}),
        "independent": {"mean": 0.5, "max": 1.0, **lines},
    }
    assert error.to_frame()["marginal"].tolist() == ["a x b", "a"]


def test_an_unreadable_value_counts_as_a_missing_one_in_each_error() -> None:
    """The errors are those of a domain that encodes both alike."""
    attributes: dict[str, Any] = {
        "kg": {"edges": [0, 50, 100, 150], "nullable": True},
        "sex": {"values": ["f", "m"], "nullable": True},
        "ill": {"values": [0, 1]},
    }

    def measured(unreadable: str) -> tuple[WorkloadErrors, np.ndarray]:
        for name in ("kg", "sex"):
            attributes[name]["unreadable"] = unreadable
        domain = Domain.from_dict({"attributes": attributes})
        rng = np.random.default_rng(0)
        tables = []
        for words in (["7,5", "n/a"], [], ["n/a"]):
            kg = rng.choice([*map(str, range(0, 150, 10)), "", "", *words], 100)
            sex = rng.choice(["f", "m", "", *words], 100)
            rows = pd.DataFrame({"kg": kg, "sex": sex, "ill": rng.integers(0, 2, 100)})
            tables.append(encode_table(rows.replace("", None), domain))
        private, synthetic, public = tables
        workload = Workload.all_k_way(domain, 2)
        exact = workload_error(private, synthetic, public, workload, mode="exact")
        noise = RecordingNoise()
        draws = Draws(noise, Purse(0.25))
        workload_error(
            *(private, synthetic, public, workload),
            mode="private",
            draws=draws,
            targets=["sex"],
        )
        return exact, noise.asked[0][0]

    (apart, drawn), (missing, drawn_of_missing) = measured("apart"), measured("missing")
    for name in ("synthetic", "public", "independent"):
        ours, theirs = getattr(apart, name), getattr(missing, name)
        assert ours.to_dict() == pytest.approx(theirs.to_dict())
    assert drawn == pytest.approx(drawn_of_missing)


def test_scores_follow_from_the_released_rows_alone(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    _, synthetic, public = tables
    private = table(domain, [(1, 1)] * 4)
    error = workload_error(private, synthetic, public, Workload.of(domain, [["a"]]), mode="exact")

    # By the synthetic rows scores are -1 and 1, so each private product is 1, and each of theirs 0.
    assert error.synthetic is not None
    assert error.synthetic.association == pytest.approx(1.0)


def test_weights_count_in_the_mean_and_not_in_the_maximum(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    workload = Workload.of(domain, [["a", "b"], ["a"]], [1.0, 3.0])
    error = workload_error(*tables, workload, mode="exact")
    assert error.synthetic is not None
    assert (error.synthetic.mean, error.synthetic.maximum) == (0.25, 1.0)


def test_independent_baseline_is_the_product_of_one_way_marginals() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    private = random_table(domain, 50, 1)
    clique = ("a", "b", "c")
    one_way = [private.marginal((name,)) / 50 for name in clique]
    expected = 50 * np.einsum("i,j,k->ijk", *one_way)
    error = workload_error(private, private, private, Workload.of(domain, [clique]), mode="exact")
    assert error.independent is not None
    assert error.independent.mean == pytest.approx(
        np.abs(private.marginal(clique) - expected).sum() / 50, abs=1e-12
    )


def test_off_reads_nothing() -> None:
    class Unreadable:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was read")

    nothing = Unreadable()
    error = workload_error(nothing, nothing, nothing, nothing, mode="off")  # type: ignore[arg-type]
    assert error == WorkloadErrors("off")
    assert error.to_dict() == {"synthetic": None, "public": None, "independent": None}


def test_private_mode_charges_the_whole_account_once(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    workload = Workload.of(domain, [["a", "b"], ["a"]])
    purse, noise, store = Purse(0.25), RecordingNoise(), MemoryStore()
    error = workload_error(*tables, workload, mode="private", draws=Draws(noise, purse, store))
    ((values, sensitivity, rho),) = noise.asked
    # Of each table the mean error of the workload, of pairs and of associations.
    assert values.tolist() == pytest.approx([0.5, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert sensitivity == pytest.approx(2 * np.sqrt(6) / 4)
    assert purse.charges == {"evaluation/means": 0.25}
    assert (error.rho, rho) == (0.25, 0.25)
    assert error.sigma == pytest.approx(sensitivity / np.sqrt(2 * 0.25))
    assert error.independent is None
    assert not error.restricted
    assert error.synthetic is not None
    assert error.synthetic.mean != 0.5
    assert error.synthetic.maximum is None
    assert error.synthetic.per_marginal is None
    assert error.to_frame().empty

    again = workload_error(*tables, workload, mode="private", draws=Draws(noise, purse, store))
    assert again == error
    assert len(noise.asked) == 1, "a stored answer is never drawn afresh"
    lost = Draws(noise, purse)
    with pytest.raises(LostDrawError):
        workload_error(*tables, workload, mode="private", draws=lost)

    assert error.call is not None
    assert (error.call.rho, error.call.scale, error.call.lost) == (0.25, error.sigma, False)
    unknown = WorkloadErrors.unknown(lost)
    assert unknown.call is not None
    assert (unknown.mode, unknown.rho, unknown.call.lost) == ("off", 0.25, True)


def test_the_pairs_of_a_purpose_are_means_of_their_own(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    asked = {"cliques": [["a"]], "purpose": [{"target": "a"}]}
    workload = Workload.specified(domain, asked)
    noise = RecordingNoise()
    draws = Draws(noise, Purse(0.25))
    error = workload_error(*tables, workload, mode="private", draws=draws)

    ((values, sensitivity, _),) = noise.asked
    # After the mean of a alone and of the pair: all cells of the pair are off, in both tables.
    assert values.reshape(2, 4)[:, 3].tolist() == [1.0, 1.0]
    assert sensitivity == pytest.approx(2 * np.sqrt(8) / 4)
    assert error.synthetic is not None
    assert error.synthetic.purpose is not None
    exact = workload_error(*tables, workload, mode="exact")
    assert exact.synthetic is not None
    assert exact.synthetic.purpose == 1.0


def test_columns_that_are_left_out_count_in_no_error_and_are_part_of_the_draw() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 2, "c": 3})
    tables = [random_table(domain, 40, seed) for seed in range(3)]
    workload = Workload.of(domain, [["a", "b"], ["a"], ["b", "c"]], [1.0, 2.0, 4.0])
    left = Workload.of(domain, [["a", "b"], ["a"]], [1.0, 2.0])

    error = workload_error(*tables, workload, mode="exact", left_out=("c",))
    assert error.left_out == ("c",)
    without = workload_error(*tables, left, mode="exact")
    assert error.synthetic is not None
    assert without.synthetic is not None
    assert error.synthetic.mean == without.synthetic.mean
    # The only pair that is left: a and b.
    pair = [np.bincount(2 * one.columns[0] + one.columns[1], minlength=4) / 40 for one in tables]
    assert error.synthetic.pairs == pytest.approx(np.abs(pair[0] - pair[1]).sum(), abs=1e-4)

    noise, store, purse = RecordingNoise(), MemoryStore(), Purse(0.25)
    given: dict[str, Any] = {"mode": "private", "run": "ab12", "left_out": ("c",)}
    noisy = workload_error(*tables, workload, **given, draws=Draws(noise, purse, store))
    ((values, sensitivity, _),) = noise.asked
    assert values[0] == pytest.approx(without.synthetic.mean)
    assert sensitivity == pytest.approx(2 * np.sqrt(6) / 40)
    assert noisy.left_out == ("c",)
    assert noisy.call is not None
    assert noisy.call.subject == 'ab12 without ["c"]'
    # A run that leaves out other columns cannot have these means.
    for other in ((), ("b",)):
        again = Draws(noise, purse, store)
        with pytest.raises(LostDrawError):
            workload_error(*tables, workload, **(given | {"left_out": other}), draws=again)
    assert len(noise.asked) == 1


def test_nothing_is_charged_if_no_column_is_left(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    workload, purse = Workload.of(domain, [["a", "b"]]), Purse(0.25)
    draws, nothing = Draws(RecordingNoise(), purse), ("a", "b")
    found = workload_error(*tables, workload, mode="private", draws=draws, left_out=nothing)
    assert found == WorkloadErrors("off", left_out=nothing)
    assert purse.charges == {}
    assert workload_error(*tables, workload, mode="exact", left_out=nothing).left_out == ()
    # A pair without a column is the other one alone.
    alone = workload_error(*tables, workload, mode="exact", left_out=("b",))
    assert alone.synthetic is not None
    assert alone.synthetic.per_marginal == {("a",): 0.0}


def test_a_baseline_that_cannot_be_made_costs_nothing(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    """Neither where the private table is at hand, nor where it is encoded after the charge."""
    private, synthetic, public = tables

    def broken() -> EncodedTable:
        raise InputError("no rows follow from the public table")

    for encode in (None, lambda: private):
        purse = Purse(0.25)
        with pytest.raises(InputError, match="no rows follow"):
            workload_error(
                private,
                synthetic,
                public,
                Workload.of(domain, [["a"]]),
                mode="private",
                draws=Draws(RecordingNoise(), purse),
                encode=encode,
                prior=broken,
            )
        assert purse.charges == {}


def test_the_scores_of_a_target_come_after_the_means(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    private, synthetic, public = tables
    workload = Workload.of(domain, [["a"]])
    noise = RecordingNoise()
    draws = Draws(noise, Purse(0.25))
    error = workload_error(
        private,
        synthetic,
        public,
        workload,
        mode="private",
        draws=draws,
        targets=["b"],
        prior=lambda: private,
    )

    ((values, sensitivity, _),) = noise.asked
    means, cells = values[:9], values[9:].reshape(3, 20)
    assert means.shape == (9,)
    # Each of three tables has a histogram of all records.
    assert cells.sum(axis=1).tolist() == [1.0, 1.0, 1.0]
    # In squares nine means of 2 / n and three histograms of sqrt 2 / n.
    assert sensitivity == pytest.approx(np.sqrt(9 * 4 + 3 * 2) / 4)
    for table in (error.synthetic, error.public, error.prior):
        assert table is not None
        assert len(table.scores["b"]) == 20
    left_out = workload_error(
        *tables,
        workload,
        mode="private",
        draws=Draws(noise, Purse(0.25)),
        targets=["b"],
        left_out=["b"],
    )
    assert left_out.synthetic is not None
    assert left_out.synthetic.scores == {}


@pytest.mark.slow
def test_replacing_a_person_moves_the_means_no_further_than_claimed() -> None:
    """Over 400 neighbours a mean and a mean of pairs reach the claim, and none exceeds it."""
    domain = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
    workload = Workload.all_k_way(domain, 2)
    records, largest = 12, np.zeros(3)
    rng = np.random.default_rng(7)
    for _ in range(400):
        private = random_table(domain, records, int(rng.integers(1 << 30)))
        columns = [column.copy() for column in private.columns]
        for column, size in zip(columns, domain.shape, strict=True):
            column[0] = rng.integers(0, size)
        neighbour = EncodedTable(domain, tuple(columns))
        # One record only, so that counts of the two tables lie on either side of the answers.
        judged = [private.take(np.zeros(1, int)), random_table(domain, 5, 1)]
        noise, means = RecordingNoise(), []
        for d in (private, neighbour):
            draws = Draws(noise, Purse(1.0))
            workload_error(d, *judged, workload, mode="private", draws=draws)
            values, claimed, _ = noise.asked[-1]
            means.append(values)
        moved = means[0] - means[1]
        assert np.linalg.norm(moved) <= claimed + 1e-12
        largest = np.maximum(largest, np.abs(moved).reshape(2, 3).max(axis=0))
    assert largest[:2] == pytest.approx(2 / records)
    # No record is at both ends of all three pairs.
    assert largest[2] <= REPLACE_ONE.mean_association(records)


@pytest.mark.slow
def test_the_noisy_means_have_the_stated_standard_error(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    """Over 2,000 seeds the spread is within 12% of sigma: a false failure has p < 1e-13."""
    workload = Workload.of(domain, [["a", "b"]])
    drawn = [
        workload_error(
            *tables, workload, mode="private", draws=Draws(SeededNoise(seed), Purse(1.0))
        )
        for seed in range(2000)
    ]
    means = np.array([(e.synthetic.mean, e.public.mean) for e in drawn if e.synthetic and e.public])
    assert means.std(axis=0) == pytest.approx(drawn[0].sigma, rel=0.12)
    assert means.mean(axis=0) == pytest.approx([1.0, 1.0], abs=7 * drawn[0].sigma / np.sqrt(2000))


# Raked tables have the margins of the synthetic one.
NO_PAIR = {"pairs": 1.0, "association": 0.0, "correlation": 0.0}


def test_an_empty_private_table_is_judged_by_where_their_number_is_private(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    private, synthetic, public = tables
    nobody = private.take(np.array([], int))
    workload = Workload.of(domain, [["a", "b"], ["a"]])
    hidden = Draws(SeededNoise(0), Purse(9e3), neighbours=Neighbours("add_remove"))
    noisy = workload_error(
        nobody, synthetic, public, workload, mode="private", draws=hidden, records=4
    )
    # Everybody in the synthetic table is one too many.
    assert noisy.synthetic is not None
    assert noisy.synthetic.mean == pytest.approx(1.0, abs=6 * noisy.sigma)
    assert noisy.sigma < 0.01
    assert [call.lost for call in hidden.calls] == [False]

    exact = workload_error(nobody, synthetic, public, workload, mode="exact", records=4)
    assert exact.to_dict() == {
        "synthetic": {"mean": 1.0, "max": 1.0, **NO_PAIR},
        "public": pytest.approx({"mean": 1.0, "max": 1.0, **NO_PAIR}, abs=1e-6),
        "independent": {"mean": 0.0, "max": 0.0, **NO_PAIR},
    }
    assert exact.sample_equivalent == 0


def test_an_empty_private_table_is_refused_where_their_number_is_public(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    private, synthetic, public = tables
    nobody = private.take(np.array([], int))
    workload = Workload.of(domain, [["a"]])
    purse = Purse(1.0)
    message = "private table has no records"
    draws = Draws(SeededNoise(0), purse)
    with pytest.raises(InputError, match=message):
        workload_error(nobody, synthetic, public, workload, mode="private", draws=draws)
    with pytest.raises(InputError, match=message):
        workload_error(nobody, synthetic, public, workload, mode="exact")
    with pytest.raises(InputError, match=message):
        table_errors(nobody, [synthetic], workload)
    assert purse.charges == {}


def test_bad_input_is_refused_before_any_charge(
    domain: Domain, tables: tuple[EncodedTable, EncodedTable, EncodedTable]
) -> None:
    private, synthetic, public = tables
    workload = Workload.of(domain, [["a"]])
    purse = Purse(1.0)
    draws = Draws(SeededNoise(0), purse)
    with pytest.raises(SpecificationError, match="one of exact, private, off"):
        workload_error(*tables, workload, mode="maybe")  # type: ignore[arg-type]
    with pytest.raises(SpecificationError, match="draws of the evaluation"):
        workload_error(*tables, workload, mode="private")
    with pytest.raises(InputError, match="public table has no records"):
        workload_error(
            private,
            synthetic,
            public.take(np.array([], int)),
            workload,
            mode="private",
            draws=draws,
        )
    other = Domain.from_sizes({"a": 2, "c": 2})
    with pytest.raises(DomainError, match="synthetic table is over another domain"):
        workload_error(
            private, random_table(other, 3, 0), public, workload, mode="private", draws=draws
        )
    with pytest.raises(InputError, match="no attribute 'c'"):
        workload_error(*tables, Workload.of(other, [["c"]]), mode="private", draws=draws)
    assert purse.charges == {}


def test_blocks_change_nothing_and_bound_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.from_sizes({f"x{i}": 20 for i in range(12)})
    private, public = random_table(domain, 300, 1), random_table(domain, 100, 2)
    workload = Workload.all_k_way(domain, 3)
    (whole,) = table_errors(private, [public], workload)
    assert len(whole.per_marginal or ()) == 220

    module = importlib.import_module("jam_dagster.evaluation.workload_error")
    monkeypatch.setattr(module, "marginal_blocks", partial(marginal_blocks, cells=80_000))
    tracemalloc.start()
    assert table_errors(private, [public], workload) == [whole]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All marginals of one table at once would be 220 x 8,000 cells x 4 bytes = 7 MB.
    assert peak < 2.5e6


PAPER = {
    "adult_pub025_01": (0.188291, 0.703561),
    "adult_pub075_01": (0.569137, 1.054106),
    "titanic": (0.470430, 1.064861),
    "salary": (0.291447, 1.127753),
}


@pytest.mark.parametrize("split", first_quick(sorted(PAPER)))
def test_public_tables_of_the_papers_splits(split: str) -> None:
    if "JAM_DATA" not in os.environ:
        pytest.skip("set JAM_DATA to the folder that holds paper/<split>/ to run this")
    folder = Path(os.environ["JAM_DATA"]) / "paper" / split
    domain = Domain.from_sizes(json.loads((folder / "domain.json").read_text()))
    private, public = (
        EncodedTable.from_frame(domain, pd.read_csv(folder / f"{part}.csv"))
        for part in ("priv", "pub")
    )
    (errors,) = table_errors(private, [public], Workload.all_k_way(domain, 3))
    mean, maximum = PAPER[split]
    assert errors.mean == pytest.approx(mean, abs=5e-7)
    assert errors.maximum == pytest.approx(maximum, abs=5e-7)


def test_without_a_public_table_the_means_of_one_are_released(
    tables: tuple[EncodedTable, EncodedTable, EncodedTable],
) -> None:
    private, synthetic, _ = tables
    workload = Workload.all_k_way(private.domain, 2)
    exact = workload_error(private, synthetic, None, workload, mode="exact")
    assert exact.public is None
    assert exact.synthetic is not None
    assert exact.independent is not None
    draws = Draws(SeededNoise(0), UnledgeredAccount(9000.0))
    noisy = workload_error(private, synthetic, None, workload, mode="private", draws=draws)
    assert noisy.public is None
    assert noisy.synthetic is not None
    for name in ("mean", "pairs", "association"):
        wanted = getattr(exact.synthetic, name)
        assert getattr(noisy.synthetic, name) == pytest.approx(wanted, abs=7 * noisy.sigma)
    assert noisy.sigma < 0.01
    (call,) = draws.calls
    # Each moves by 2 / n.
    assert call.cells == 3
    assert call.sensitivity == pytest.approx(2 * np.sqrt(3) / private.records)
