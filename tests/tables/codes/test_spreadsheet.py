"""No cell of a released table is a formula to a spreadsheet."""

from __future__ import annotations

import pytest

from jam_dagster.errors import DomainError
from jam_dagster.tables import Domain
from jam_dagster.tables.codes.spreadsheet import check_cells
from jam_dagster.tables.domain.values import is_formula


@pytest.mark.parametrize(
    "cell",
    [
        *("=1+1", "=cmd|' /C calc'!A0", "+49 30", "-x", "-1 to 0", "@SUM(A1)", "\tx", "\r=1", "=="),
        # As importers see it that split at semicolons, tabs or lines, or take wide signs.
        *("a;=1+1", "a\t@x", "a\n-x", "a\r\n+x", "\uff1d1+1", "a;\uff20x"),
        # Within quotes that are doubled, these close at once; a mark of the byte order is dropped.
        *('a;"=1+1;b', "\ufeff=1+1"),
    ],
)
def test_formulas(cell: str) -> None:
    assert is_formula(cell)
    letters = {"values": ["x", "y"]}
    for content in (
        {"attributes": {"a": {"values": ["x", cell]}}},
        {"attributes": {cell: letters}},
        {"attributes": {"a": letters}, "derived": {cell: 1}},
    ):
        with pytest.raises(DomainError, match="as a formula if the synthetic table"):
            check_cells(Domain.from_dict(content))


@pytest.mark.parametrize(
    "cell",
    [
        "-",
        "+",
        "-5",
        "+1.5",
        "-1e3",
        -5,
        -0.5,
        True,
        "a=b",
        "x-",
        " x",
        "a;b",
        "a;-",
        "1;-5",
        "a, -b",
    ],
)
def test_other_cells(cell: object) -> None:
    assert not is_formula(cell)


def test_a_comma_parts_a_cell_of_a_file_with_another_separator() -> None:
    assert is_formula("a,=1+1", commas=True)
    assert not is_formula("1,-5", commas=True)
    domain = Domain.from_dict({"attributes": {"a": {"values": ["x", "a,=1+1"]}}})
    check_cells(domain)
    with pytest.raises(DomainError, match="'a,=1\\+1'"):
        check_cells(domain, commas=True)


def test_all_formulas_are_named_at_once() -> None:
    values = [f"={number}" for number in range(7)]
    attributes = {
        "a": {"values": ["x", "@home", *values]},
        "=b": {"values": ["+x", "y"]},
        "c": {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day", "format": "=%Y-%m-%d"},
        "d": {"values": ["x"]},
    }
    with pytest.raises(DomainError) as raised:
        check_cells(Domain.from_dict({"attributes": attributes, "derived": {"-d": None}}))
    assert (
        "attribute 'a': its values '@home', '=0', '=1', '=2', '=3', 3 more; attribute '=b': its"
        " name and its values '+x'; attribute 'c': its values '=%Y-%m-%d'; derived column"
        " '-d': its name. Give each"
    ) in str(raised.value)


def test_every_text_of_both_tables_is_looked_at() -> None:
    """The joined domain has other names, and no format or derived column of children."""
    link = '=HYPERLINK("//x")'
    moment = {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day", "format": link + "%Y-%m-%d"}
    sound = {"region": {"values": ["n", "s"]}}
    for key, roots, persons in (
        (link, {"attributes": sound}, {"attributes": sound}),
        ("home", {"attributes": {link: sound["region"]}}, {"attributes": sound}),
        ("home", {"attributes": sound, "derived": {link: 1}}, {"attributes": sound}),
        ("home", {"attributes": sound}, {"attributes": {link: sound["region"]}}),
        ("home", {"attributes": sound}, {"attributes": {"job": {"values": ["x", link]}}}),
        ("home", {"attributes": sound}, {"attributes": {"born": moment}}),
        ("home", {"attributes": sound}, {"attributes": sound, "derived": {link: 1}}),
    ):
        children = {"persons": {"key": key, "max": 2, **persons}}
        with pytest.raises(DomainError, match="HYPERLINK"):
            check_cells(Domain.from_dict({**roots, "children": children}))
    fine = {"persons": {"key": "home", "max": 2, "attributes": sound}}
    check_cells(Domain.from_dict({"attributes": sound, "children": fine}))


def test_numbers_stay_numbers() -> None:
    attributes = {
        "a": {"edges": [-10, -5, 0]},
        "b": {"values": [-5, -1]},
        "c": {"values": ["-5", "-"], "nullable": True},
    }
    check_cells(Domain.from_dict({"attributes": attributes}))
