"""What a public table says nothing of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError, SourceError
from jam_dagster.release.options import release_spec
from jam_dagster.release.public_side import domain_of, public_records, public_remarks
from jam_dagster.tables import Domain, FrameSource

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "day": {
                "bounds": ["2024-01-01", "2024-01-31"],
                "unit": "day",
                "format": "%d/%m/%Y",
                "outside": "clip",
                "nullable": True,
                "unreadable": "missing",
            },
            "price": {"bounds": [0, 10], "bins": 5, "outside": "clip"},
            "sex": {"values": ["f", "m"]},
        }
    }
)


def remarks(days: list[str | None], prices: list[float]) -> list[str]:
    frame = pd.DataFrame({"day": pd.array(days, dtype="str"), "price": prices, "sex": "f"})
    return public_remarks({"": frame}, DOMAIN)


def test_a_public_table_of_another_period_is_remarked_upon() -> None:
    assert remarks(["02/01/2024"] * 8 + ["02/01/2023"] * 2, [0.0] * 8 + [11.0] * 2) == []
    assert remarks(["02/01/2024"] * 7 + ["02/01/2023"] * 3, [0.0] * 7 + [11.0] * 3) == [
        "day: 30% of the values in the public table are beyond the bounds, 2024-01-01 to"
        " 2024-01-31, and are moved to them: shift the dates there, or correct the bounds",
        "price: 30% of the values in the public table are beyond the bounds, 0 to 10, and are moved"
        " to them: change the unit, or correct the bounds",
    ]


def test_cells_that_do_not_read_are_remarked_upon_and_missing_ones_are_not() -> None:
    assert remarks([None] * 9 + ["02/01/2024"], [1.0] * 10) == []
    (remark,) = remarks(["soon"] * 9 + [None], [1.0] * 10)
    assert remark.startswith("day: 90% of the values in the public table cannot be parsed")


def test_values_that_are_not_listed_are_remarked_upon() -> None:
    frame = pd.DataFrame({"sex": ["f", "F", "w", None]})
    for unreadable in ("missing", "apart"):
        entry = {"values": ["f", "m"], "nullable": True, "unreadable": unreadable}
        domain = Domain.from_dict({"attributes": {"sex": entry}})
        assert public_remarks({"": frame}, domain) == [
            "sex: 25% of the values in the public table are not listed in the domain and are"
            " released as missing: list them, or write them as the domain does"
        ]
    other = Domain.from_dict({"attributes": {"sex": {"values": ["f", "m"], "other": "m"}}})
    assert public_remarks({"": frame[:3]}, other) == []


def test_a_column_that_is_empty_throughout_is_remarked_upon() -> None:
    nothing, infinite = float("nan"), float("inf")
    frame = pd.DataFrame({"day": [None] * 3, "price": [infinite, nothing, -infinite], "sex": None})
    found = public_remarks({"": frame}, DOMAIN)
    assert [one.partition(":")[0] for one in found] == ["day", "price", "sex"]
    assert found[1] == (
        "price: each cell of the public table is missing or infinite, so it says nothing about"
        " this column: give it values, or leave the column out"
    )
    # One value is enough, wherever it is.
    rows = 30_000
    price = pd.Series([nothing] * rows)
    price[rows - 2] = 1.0
    frame = pd.DataFrame({"day": ["02/01/2024"] * rows, "price": price, "sex": "f"})
    assert public_remarks({"": frame}, DOMAIN) == []


def test_what_only_private_data_told_is_not_repeated() -> None:
    private = replace(DOMAIN, identified_from="private")
    frame = pd.DataFrame({"day": ["02/01/2023"], "price": [11.0], "sex": "f"})
    assert public_remarks({"": frame}, private) == []
    assert len(public_remarks({"old": frame, "new": frame}, DOMAIN)) == 4


def test_what_a_draft_notes_is_said_whether_or_not_a_column_is_left_out() -> None:
    day = [f"2024-01-{number:02d} 10:00:00.5" for number in range(1, 29)]
    public = pd.DataFrame({"day": day, "sex": ["f", "m"] * 14})
    spec = release_spec(
        release="r", private="private.csv", public="public.csv", epsilon=1.0, noise="numpy"
    )
    for table in (public, public.assign(constant=1)):
        said: list[str] = []
        domain_of(spec, {"": table}, said.append)
        assert "day: fractions of a second come out as 0" in "".join(said)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (
            {"sex": ["f", "m"] * 50, "year": 2013},
            r"columns \(year: is 2013 in every row\): the degree of a workload must be",
        ),
        (
            {"sex\tage": [f"f\t{age}" for age in range(20, 70)] * 2},
            r"^CSV file .*public\.csv has one column; if '\\t' separates its columns, the table is",
        ),
        # Nothing is left out of it.
        ({"sex": ["f", "m"] * 50}, r"^the degree of a workload must be"),
    ],
)
def test_columns_that_a_draft_leaves_out_are_named_before_the_degree(
    table: dict[str, object], named: str
) -> None:
    spec = release_spec(
        release="r",
        private="private.csv",
        public="public.csv",
        epsilon=1.0,
        noise="numpy",
        degree=2,
    )
    with pytest.raises(InputError, match=named):
        domain_of(spec, {"": pd.DataFrame(table)})


def test_who_shifted_the_public_table_is_not_advised_to(tmp_path: Path) -> None:
    path = tmp_path / "public.csv"
    pd.DataFrame({"day": pd.date_range("2024-01-01", periods=90), "sex": "f"}).assign(
        sex=["f", "m"] * 45
    ).to_csv(path, index=False)
    for public, advised in ((str(path), True), ({"shift": str(path), "by": "52 weeks"}, False)):
        spec = release_spec(
            release="r", private="private.csv", public=public, epsilon=1.0, noise="numpy"
        )
        said: list[str] = []
        domain_of(spec, public_records(spec), said.append)
        assert "day: dates beyond its bounds are moved to them" in "".join(said)
        assert ("`shift`" in "".join(said)) == advised


def test_a_column_without_a_name_and_words_for_missing_cells_are_said(tmp_path: Path) -> None:
    public = tmp_path / "b.csv"
    public.write_text("age,,job\n1,f,cook\n2,m,NA\n")
    given = {"release": "r", "private": "a.csv", "public": str(public), "epsilon": 1.0}
    said: list[str] = []
    (frame,) = public_records(release_spec(**given, noise="numpy"), said.append).values()
    assert list(frame) == ["age", "job"]
    nameless, missing = said
    assert "without a name" in nameless
    # Of a domain that is drafted, what the draft command says of the file is said as well.
    assert "read as missing in 'job' (50%, written NA)" in missing


def test_a_table_with_an_undeclared_separator_is_no_release() -> None:
    """By default the degree is the number of attributes, and one text would be a release."""
    table = pd.DataFrame({"sex;age": [f"f;{age}" for age in range(20, 24)] * 20})
    spec = release_spec(
        release="r", private="private.csv", public="public.csv", epsilon=1.0, noise="numpy"
    )
    with pytest.raises(InputError, match="if ';' separates its columns"):
        domain_of(spec, {"": table})
    # A DataFrame's column may have any name.
    frame = release_spec(
        release="r",
        private="private.csv",
        public=FrameSource(table, "t"),
        epsilon=1.0,
        noise="numpy",
    )
    assert domain_of(frame, {"": table}).names == ("sex;age",)


@pytest.mark.parametrize("lines", ["Größe;kg\n170;70,5\n", "kg;sex\n70,5;Mädchen\n"])
def test_a_public_file_of_another_dialect_is_refused_with_the_one_that_it_shows(
    tmp_path: Path, lines: str
) -> None:
    path = tmp_path / "old.csv"
    path.write_text(lines, encoding="cp1252")
    shown = (
        f'the table is {{"csv": "{path}", "separator": ";", "encoding": "cp1252", "decimal": ","}}'
    )

    def read(public: dict[str, str]) -> None:
        public_records(
            release_spec(release="r", private="p.csv", public=public, epsilon=1.0, noise="numpy")
        )

    with pytest.raises(SourceError, match=re.escape(f"; as its lines show, {shown}")):
        read({"csv": str(path)})
    read({"csv": str(path), "separator": ";", "encoding": "cp1252", "decimal": ","})
    # No better one is found: the error is as it was.
    # What is stated stays, so nothing better is found.
    with pytest.raises(SourceError, match=r"set `encoding`.*[^}]$"):
        read({"csv": str(path), "separator": ";", "encoding": "utf-8-sig", "decimal": ","})


RELATED = {"attributes": {name: {"values": ["f", "m"]} for name in ("a", "b", "c", "d")}}


def related(**given: object) -> Domain:
    """Return the domain of a release; in its public table c is a, and d is b in 19 of 20 rows."""
    domain = given.pop("domain", Domain.from_dict(RELATED))
    options = {"release": "r", "private": "private.csv", "public": "public.csv", "epsilon": 1.0}
    spec = release_spec(**{**options, "domain": domain, **given})
    a, b = (np.arange(400) % 2).tolist(), (np.arange(400) // 2 % 2).tolist()
    d = [one if row % 20 else 1 - one for row, one in enumerate(b)]
    codes = pd.DataFrame({"a": a, "b": b, "c": a, "d": d}).replace({0: "f", 1: "m"})
    found = domain_of(spec, {"": codes})
    # Whatever was asked for, the release over what was found finds it again.
    assert domain_of(spec.over(found), {"": codes}) == found
    return found


def test_pairs_that_the_public_table_relates_are_added_where_the_workload_lacks_them() -> None:
    found = related(degree=1)
    assert found.related == (("a", "c"), ("b", "d"))
    assert found.digest != Domain.from_dict(RELATED).digest
    assert Domain.from_dict(found.to_dict()) == found
    assert "\nrelated: [[a, c], [b, d]]\n" in found.to_yaml()
    assert related(cliques=[["a", "b"], ["c"]]).related == (("a", "c"),)
    # The strongest ones, as many as there are marginals.
    assert related(cliques=[["a", "b"], ["c", "d"]]).related == (("a", "c"), ("b", "d"))
    # c is a in another column, so a draft derives it.
    assert related(degree=1, domain={"identify": "public"}).related == (("b", "d"),)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"degree": 2},
        {"cliques": [["a", "c"], ["b", "d"]]},
        {"cliques": [["a", "b"]]},
        # Whoever declares the domain may say that none is added.
        {"degree": 1, "domain": Domain.from_dict(RELATED | {"related": []})},
    ],
)
def test_no_pair_is_added_to_a_workload_that_has_all_it_asks_of(given: dict[str, object]) -> None:
    found = related(**given)
    assert not found.related
    assert found.digest == Domain.from_dict(RELATED).digest


@pytest.mark.parametrize("related", [[["a"]], [["a", "a"]], [["a", "x"]], "a", [["a", 1]]])
def test_what_is_related_is_pairs_of_columns(related: object) -> None:
    with pytest.raises(InputError):
        Domain.from_dict(RELATED | {"related": related})
