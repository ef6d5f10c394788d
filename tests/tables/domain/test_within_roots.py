"""Rules between the children of a root, and between a root and its children, in a file."""

import pytest

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.unique import Unique

DAYS = {"bounds": ["2024-01-01", "2024-12-31"], "unit": "day", "bins": 12, "outside": "clip"}


def file(repairs=(), siblings=(), **own):
    """Return an order with lines, their rules, and further keys of the children."""
    lines = {"product": {"values": ["a", "b", "c"]}, "sent": DAYS, "got": DAYS}
    child = {"key": "id", "max": 4, "attributes": lines, "repairs": list(siblings), **own}
    roots = {"asked": DAYS, "region": {"values": ["N", "S"]}}
    return {"attributes": roots, "repairs": list(repairs), "children": {"lines": child}}


def test_a_file_has_both_kinds_where_a_person_looks_for_them():
    order = {"order": "asked <= lines.sent", "apart": [[0, 9, 1]]}
    own = ["sent <= got", {"unique": ["id", "product"]}]
    domain = Domain.from_dict(file(["lines.got < asked", order], own))
    assert domain.children.rules == (
        Order("lines.got", "asked", strict=True),
        Order("asked", "lines.sent", apart=((0, 9, 1),)),
        Unique(("id", "product")),
    )
    assert domain.roots.repairs == ()
    assert domain.children.domain.repairs == (Order("sent", "got"),)
    written = parse_yaml(write_yaml(domain.to_dict()))
    assert written["repairs"][0] == "lines.got < asked"
    assert written["children"]["lines"]["repairs"][1] == {"unique": ["id", "product"]}
    again = Domain.from_dict(written)
    assert again == domain
    assert again.digest == domain.digest != Domain.from_dict(file()).digest
    assert domain.children.rules[0].describe(domain.children.both) == "lines.got < asked"


@pytest.mark.parametrize(
    ("repairs", "siblings", "message"),
    [
        (["asked <= lines.other"], [], "no attribute 'other'"),
        (["asked <= lines.product"], [], "has categories"),
        (["lines.sent <= lines.got"], [], "between a root and a child"),
        ([{"order": "lines.sent <= asked", "apart": [[0, 3, 1]]}], [], "remove 'apart'"),
        (["asked <= lines.sent", "lines.sent <= asked"], [], "in a circle"),
        ([], [{"unique": ["id"]}], "a further column"),
        ([], [{"unique": ["id", "id"]}], "a further column"),
        ([], [{"unique": ["id", "product", "product"]}], "each once"),
        ([], [{"unique": ["id", "none"]}], "no attribute 'none'"),
        ([], [{"unique": ["id", "product"], "where": 1}], "where"),
    ],
)
def test_what_is_refused(repairs, siblings, message):
    with pytest.raises(InputError, match=message):
        Domain.from_dict(file(repairs, siblings))


def test_a_column_of_the_root_may_have_a_name_with_a_dot():
    content = file(['col("lines.due") <= asked'])
    content["attributes"]["lines.due"] = DAYS
    domain = Domain.from_dict(content)
    assert domain.children.rules == ()
    assert domain.roots.repairs == (Order("lines.due", "asked"),)
    assert issubclass(DomainError, InputError)
