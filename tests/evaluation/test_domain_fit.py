"""A column that its domain does not fit is named, and ordinary columns are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.evaluation.domain_fit import (
    CatchAllShare,
    ColumnFit,
    column_fits,
    misfit_sentence,
    remedy_sentence,
    unknown_sentences,
)
from jam_dagster.mechanisms import Transcript
from jam_dagster.tables import (
    Attribute,
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    PublicTables,
)
from jam_dagster.tables.domain.children import Link
from tests.evaluation.conftest import RECORDS, measured_round, transcript_of

YEAR = NumericAttribute("year", (2000, 2002, 2004, 2006, 2008, 2010), integer=True, clip=True)
CLUB = CategoricalAttribute("club", ("A", "B", "rest"), other="rest")
WEIGHT = NumericAttribute("kg", (0.0, 50.0, 100.0), nullable=True, unreadable="missing")
FLAG = NumericAttribute("flag", (0, 1, 2), integer=True, clip=True)
DOMAIN = Domain((YEAR, CLUB, WEIGHT))
PUBLIC = {"year": [20, 20, 20, 20, 20], "club": [60, 30, 10], "kg": [45, 50, 5]}


def public_table() -> EncodedTable:
    columns = (np.repeat(np.arange(len(one)), one) for one in PUBLIC.values())
    return EncodedTable(DOMAIN, tuple(columns))


def measured(sigma: float = 10.0, **shares: list[float]) -> Transcript:
    rounds = [
        measured_round(place, (name,), "private", np.array(shown) * RECORDS, sigma)
        for place, (name, shown) in enumerate(shares.items())
    ]
    return transcript_of(DOMAIN, rounds)


def fits(transcript: Transcript) -> dict[str, ColumnFit]:
    return {one.attribute.name: one for one in column_fits(transcript, DOMAIN, public_table())}


def test_bounds_that_were_bought_are_not_widened_by_hand() -> None:
    kept = replace(DOMAIN, kept={"year": {"edges": "paid"}})
    by_column = {
        one.attribute.name: one
        for one in column_fits(measured(year=[0, 0, 0, 0, 1]), kept, public_table())
    }
    assert by_column["year"].bought
    assert not by_column["club"].bought
    found = remedy_sentence([by_column["year"]])
    assert found.endswith("Declare edges of year, or edit the range, which buys edges again.")


def test_values_that_do_not_fit_end_in_catch_all_cells() -> None:
    cells: list[tuple[Attribute, list[tuple[str, int]]]] = [
        (YEAR, [("bound", 0), ("bound", 4)]),
        (CLUB, [("other", 2)]),
        (WEIGHT, [("missing", 2)]),
        (replace(YEAR, clip=False), []),
        (replace(CLUB, other=None), []),
        (NumericAttribute("one", (0.0, 1.0), clip=True), []),
        (replace(WEIGHT, unreadable="apart"), [("unreadable", 2), ("missing", 3)]),
        # All values of a flag are in the first or last bin, whatever they are.
        (FLAG, [("half", 0), ("half", 1)]),
    ]
    for attribute, expected in cells:
        assert [tuple(one) for one in attribute.catch_all_cells] == expected


@pytest.mark.parametrize(
    ("name", "shares", "where", "remedy"),
    [
        (
            "year",
            [0, 0, 0, 0, 1],
            "in the bin 2008 to 2010 at a bound",
            "Widen the bounds of year.",
        ),
        (
            "year",
            [0.7, 0.3, 0, 0, 0],
            "in the bin 2000 to 2001 at a bound",
            "Widen the bounds of year.",
        ),
        ("club", [0, 0, 1], "counted as rest", "List the values of club."),
        ("kg", [0, 0, 1], "missing", "count as missing in kg: state the format"),
    ],
)
def test_a_misfit_is_named_with_its_share_the_public_one_and_the_remedy(
    name: str, shares: list[float], where: str, remedy: str
) -> None:
    found = fits(measured(**{name: shares}))
    misfit = found[name].misfit
    assert misfit is not None
    assert misfit.public == pytest.approx(
        0.2 if name == "year" else {"club": 0.1, "kg": 0.05}[name]
    )
    assert misfit.released == pytest.approx(max(shares), abs=0.01)
    sentence = misfit_sentence(found.values())
    assert sentence.startswith(f"The domain does not fit {name}. In {name}, ")
    assert where in sentence
    assert f"{misfit.public:.1%} in the public table" in sentence
    assert remedy in remedy_sentence(found.values())


def test_a_column_that_is_never_missing_in_public_has_lost_what_is_not_listed() -> None:
    """A draft lists the values of a column without rare ones, and any other one is missing."""
    team = CategoricalAttribute("team", ("A", "B"), nullable=True, unreadable="missing")
    domain = Domain((team,))
    public = EncodedTable(domain, (np.repeat([0, 1], 50),))

    def misfit(missing: float, table: EncodedTable | None) -> bool:
        counts = np.array([1 - missing, 0, missing]) * RECORDS
        round_ = measured_round(0, ("team",), "private", counts, 5.0)
        (fit,) = column_fits(transcript_of(domain, [round_]), domain, table)
        return fit.misfit is not None

    assert misfit(0.07, public)
    assert not misfit(0.03, public)
    assert not misfit(0.07, EncodedTable(domain, (np.repeat([0, 1, 2], [50, 49, 1]),)))
    assert not misfit(0.07, None)


APART = replace(WEIGHT, unreadable="apart")
LISTED = CategoricalAttribute("team", ("A", "B"), nullable=True, unreadable="apart")


def fit_of(
    attribute: Attribute, unreadable: float, missing: float, public: list[int] | None
) -> ColumnFit:
    """Return the fit of a column of which so many records are measured to be so."""
    domain = Domain((attribute,))
    counts = np.array([1 - unreadable - missing, 0, unreadable, missing]) * RECORDS
    drawn = measured_round(0, (attribute.name,), "private", counts, 2.0)
    table = None if public is None else EncodedTable(domain, (np.repeat(range(4), public),))
    (fit,) = column_fits(transcript_of(domain, [drawn]), domain, table)
    return fit


@pytest.mark.parametrize(
    ("attribute", "remedy"),
    [(APART, "State how the values of kg are written: "), (LISTED, "List the values of team.")],
)
@pytest.mark.parametrize("public", [None, [90, 5, 0, 5]])
def test_values_that_cannot_be_read_are_named_as_such(
    attribute: Attribute, remedy: str, public: list[int] | None
) -> None:
    fit = fit_of(attribute, 0.93, 0.05, public)
    assert fit.misfit is not None
    assert fit.misfit.caught == "unreadable"
    beside = "" if public is None else ", and 0.0% in the public table"
    assert misfit_sentence([fit]).endswith(f" of the records cannot be read{beside}.")
    assert remedy in remedy_sentence([fit])
    assert not fit.unknown


def test_empty_cells_are_known_to_be_empty_where_unreadable_ones_are_apart() -> None:
    fit = fit_of(APART, 0.0, 0.93, [90, 5, 0, 5])
    assert fit.misfit is not None
    assert fit.misfit.caught == "missing"
    assert remedy_sentence([fit]).endswith("Check or leave out kg.")


@pytest.mark.parametrize(
    ("unreadable", "missing", "public", "misfit"),
    [
        (0.04, 0.05, [90, 5, 0, 5], False),
        (0.07, 0.05, [90, 5, 0, 5], True),
        (0.15, 0.05, [90, 4, 1, 5], False),
        # A release, which the next one may draw on, has missing values in place of unreadable ones.
        (0.06, 0.05, [89, 0, 0, 11], False),
        (0.93, 0.05, [2, 0, 0, 98], False),
        (0.30, 0.05, [89, 0, 0, 11], True),
        # Another table may have words where this one has empty cells.
        (0.00, 0.11, [89, 0, 11, 0], False),
        (0.00, 0.30, [89, 0, 11, 0], True),
        # Without a public table nothing else explains them.
        (0.10, 0.05, None, False),
        (0.30, 0.05, None, True),
        (0.00, 0.90, None, False),
    ],
)
def test_a_share_of_unreadable_values_is_a_misfit_beyond_the_usual_one(
    unreadable: float, missing: float, public: list[int] | None, misfit: bool
) -> None:
    fit = fit_of(APART, unreadable, missing, public)
    assert (fit.misfit is not None) == misfit


def test_dates_at_a_bound_are_to_be_shifted() -> None:
    when = Domain.from_dict(
        {"attributes": {"day": {"bounds": ["2024-01-01", "2024-02-01"], "unit": "day"}}}
    ).attribute("day")
    at_end = CatchAllShare("bound", "2024-01-31", 0.99, 0.01, 0.001)
    assert ColumnFit(when, (at_end,)).remedy == "shift"
    assert ColumnFit(when, (at_end,), bought=True).remedy == "buy_edges"
    assert ColumnFit(when, (replace(at_end, public=None),)).remedy == "widen"
    assert ColumnFit(YEAR, (at_end,)).remedy == "widen"


@pytest.mark.parametrize(
    ("public", "released", "misfit"),
    [(50, 0.99, True), (50, 0.96, False), (70, 0.99, True), (85, 0.99, False), (None, 1.0, False)],
)
def test_one_of_two_bins_that_holds_almost_all_is_a_misfit(
    public: int | None, released: float, misfit: bool
) -> None:
    domain = Domain((FLAG,))
    drawn = measured_round(
        0, ("flag",), "private", np.array([1 - released, released]) * RECORDS, 5.0
    )
    table = None
    if public is not None:
        table = EncodedTable(domain, (np.repeat([0, 1], [100 - public, public]),))
    (fit,) = column_fits(transcript_of(domain, [drawn]), domain, table)
    assert (fit.misfit is not None) == misfit
    assert not fit.unknown
    if misfit:
        assert "are in 1 to 2, one of the two bins, and" in misfit_sentence([fit])
        assert remedy_sentence([fit]).endswith("Widen the bounds of flag.")


def test_ordinary_differences_are_no_misfit() -> None:
    found = fits(
        measured(year=[0.55, 0.2, 0.1, 0.1, 0.05], club=[0.5, 0.22, 0.28], kg=[0.38, 0.4, 0.22])
    )
    assert [one.misfit for one in found.values()] == [None] * 3
    assert misfit_sentence(found.values()) == remedy_sentence(found.values()) == ""
    assert unknown_sentences(list(found.values())) == []


def test_noise_alone_makes_no_misfit_and_is_said_where_it_would_hide_one() -> None:
    # Noise of a standard deviation as large as the table.
    found = fits(measured(sigma=RECORDS, club=[0.6, 0.3, 0.7]))
    assert found["club"].misfit is None
    unknown = unknown_sentences(list(found.values()))
    assert unknown == [
        "It is not known whether the domain fits year, kg, of which the release has no private"
        " measurement.",
        "It is not known whether the domain fits club, of which the release has only private"
        " measurements whose noise would hide a misfit.",
    ]


@pytest.mark.slow
def test_noise_seldom_makes_a_false_alarm() -> None:
    """Of 2,000 releases of the public shares with large noise, one in 1,000 may be named.

    More than 20 have a probability below 1e-13.
    """
    draws = np.random.default_rng(0).normal(0.0, 0.3, (2000, 3))
    alarms = 0
    for noise in draws:
        round_ = measured_round(0, ("club",), "private", np.zeros(3), 0.3 * RECORDS)
        counts = (np.array(PUBLIC["club"]) / 100 + noise) * RECORDS
        assert round_.measurement is not None
        drawn = replace(round_, measurement=replace(round_.measurement, values=counts))
        alarms += fits(transcript_of(DOMAIN, [drawn]))["club"].misfit is not None
    assert alarms <= 20


def test_a_public_measurement_says_nothing_of_the_private_column() -> None:
    counts = np.array([0.0, 0.0, RECORDS])
    transcript = transcript_of(DOMAIN, [measured_round(0, ("club",), "public", counts, 0.0)])
    assert fits(transcript)["club"].unknown == "fit_unmeasured"


def test_a_marginal_of_several_columns_tells_of_each() -> None:
    counts = np.zeros((5, 3))
    counts[4, 2] = RECORDS
    transcript = transcript_of(
        DOMAIN, [measured_round(0, ("year", "club"), "private", counts, 10.0)]
    )
    found = fits(transcript)
    assert found["year"].misfit is not None
    assert found["club"].misfit is not None


def test_without_a_public_column_only_a_column_that_is_lost_is_a_misfit() -> None:
    public = EncodedTable(DOMAIN.project(["year"]), (np.repeat(np.arange(5), 20),))
    for given in (None, PublicTables(DOMAIN, {"old": public})):
        half, lost = (
            {
                one.attribute.name: one
                for one in column_fits(measured(club=[0, 1 - share, share]), DOMAIN, given)
            }
            for share in (0.8, 0.99)
        )
        assert half["club"].misfit is None
        misfit = lost["club"].misfit
        assert misfit is not None
        assert misfit.public is None
        assert "public" not in lost["club"].sentence(misfit)


def test_of_several_misfits_the_worst_is_named() -> None:
    found = fits(measured(year=[0, 0, 0, 0, 1], kg=[0, 0, 1]))
    # The last year is 20% of the public table.
    assert misfit_sentence(found.values()).startswith(
        "The domain does not fit kg and 1 other column. In kg, "
    )


# --- two children of a root

PAIR = Domain.from_sizes({"region": 2}).with_children(Link("persons", "id", 3), Domain((CLUB,)))


def released_of(slot: int, shares: list[float], sigma: float = 10.0) -> Transcript:
    counts = np.array(shares) * RECORDS
    name = f"persons.{slot}.club"
    return transcript_of(PAIR, [measured_round(0, (name,), "private", counts, sigma)])


@pytest.mark.parametrize("slot", [1, 2])
def test_two_children_have_one_column_that_either_shows(slot: int) -> None:
    (fit,) = column_fits(released_of(slot, [0.3, 0.2, 0.0, 0.5]), PAIR, None)
    assert not fit.unknown
    assert fit.misfit is None
    (lost,) = column_fits(released_of(slot, [0.0, 0.0, 0.5, 0.5]), PAIR, None)
    assert misfit_sentence([lost]).startswith("The domain does not fit persons.club.")
    assert remedy_sentence([lost]).endswith("List the values of persons.club.")


def test_a_child_s_remedy_is_that_of_its_column() -> None:
    link = Link("persons", "id", 3)
    domain = Domain.from_sizes({"region": 2}).with_children(link, Domain((WEIGHT,)))
    counts = np.array([0.0, 0.0, 0.6, 0.4]) * RECORDS
    drawn = measured_round(0, ("persons.1.kg",), "private", counts, 10.0)
    (lost,) = column_fits(transcript_of(domain, [drawn]), domain, None)
    assert "count as missing in persons.kg: state the format" in remedy_sentence([lost])


def test_a_child_s_values_that_cannot_be_read_are_named_as_such() -> None:
    domain = Domain.from_sizes({"region": 2}).with_children(
        Link("persons", "id", 3), Domain((APART,))
    )
    counts = np.array([0.0, 0.0, 0.5, 0.1, 0.4]) * RECORDS
    drawn = measured_round(0, ("persons.1.kg",), "private", counts, 10.0)
    (lost,) = column_fits(transcript_of(domain, [drawn]), domain, None)
    assert lost.misfit is not None
    assert (lost.misfit.caught, round(lost.misfit.released, 1)) == ("unreadable", 0.8)
    assert "State how the values of persons.kg are written" in remedy_sentence([lost])


def test_a_child_s_share_is_of_the_roots_that_have_it() -> None:
    """Half of the roots have no person; the persons of the others have lost their club."""
    (fit,) = column_fits(released_of(1, [0.0, 0.0, 0.5, 0.5]), PAIR, None)
    assert fit.misfit is not None
    assert fit.misfit.released == pytest.approx(1.0, abs=0.02)
    codes = np.array([0] * 6 + [2] * 4 + [3] * 10)
    number = (codes < 3).astype(int)
    columns = (np.zeros(20, int), number, codes, np.full(20, 3))
    (beside,) = column_fits(released_of(1, [0.3, 0.0, 0.2, 0.5]), PAIR, EncodedTable(PAIR, columns))
    assert [one.public for one in beside.shares] == [pytest.approx(0.4)]
    assert beside.shares[0].released == pytest.approx(0.4, abs=0.02)
    # Where nobody has the child, nothing is known.
    (nobody,) = column_fits(released_of(1, [0.0, 0.0, 0.0, 1.0]), PAIR, None)
    assert nobody.unknown == "fit_noisy"


def test_a_column_of_children_that_is_not_measured_is_named_once() -> None:
    found = column_fits(transcript_of(PAIR, []), PAIR, None)
    (sentence,) = unknown_sentences(found)
    assert "fits persons.club, of which" in sentence
