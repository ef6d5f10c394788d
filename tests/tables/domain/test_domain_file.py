import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError, SourceError, SpecificationError
from jam_dagster.tables import Domain, draft_table, encode, health_survey_domain
from jam_dagster.tables.domain import domain as domains
from jam_dagster.tables.domain import domain_file, impossible
from jam_dagster.tables.domain.children import Link

FILE = """
identified_from: declared
attributes:
  age: {bounds: [0, 89], bins: 6, integer: true, outside: clip, nullable: true}
  years: {bounds: [0, 3], integer: true}
  income: {edges: [0, 10.5, 100], decimals: 2}
  "yes": {values: [no, yes, 12:30, 2024-01-31, 007, 1e3, other], other: other, nullable: true}
impossible:
  - {age: [{below: 15}, {from: 75}, null], "yes": [no, null]}
  - {years: [0, 3], income: {bins: [1]}}
"""


@given(st.from_type(Domain))
def test_yaml_and_json_give_the_domain_back(domain):
    content = domain.to_dict()
    for read in (parse_yaml(write_yaml(content)), json.loads(json.dumps(content))):
        assert Domain.from_dict(read).digest == domain.digest


def test_yaml_keeps_exotic_line_breaks_and_words_that_mean_something():
    texts = ["\x85", "a\u2028b", "\ufeff", "\n a\n", "no", "1e3", "007", "12:30", "", "null", "\t"]
    content = {"attributes": {text or "empty": {"values": texts} for text in texts}}
    domain = Domain.from_dict(content)
    assert domain.attribute("\x85").values == tuple(texts)
    assert Domain.from_dict(parse_yaml(write_yaml(domain.to_dict()))) == domain


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_a_file_gives_the_domain_back(tmp_path, suffix):
    path = tmp_path / f"domain{suffix}"
    health_survey_domain().save(path)
    assert Domain.load(path) == health_survey_domain()


def test_what_a_file_says(tmp_path):
    path = tmp_path / "domain.yaml"
    path.write_text(FILE)
    domain = Domain.load(path)
    assert domain.attribute("age").edges[:3] == (0, 14.8333333333333, 29.6666666666667)
    assert domain.attribute("age").edges[-1] == 89
    assert domain.attribute("years").labels == ("0", "1", "2", "3")
    assert domain.attribute("income").labels == ("0.00 to 10.49", "10.50 to 100.00")
    assert domain.attribute("yes").values == (
        "no",
        "yes",
        "12:30",
        "2024-01-31",
        7,
        1000.0,
        "other",
    )
    assert domain.impossible[0].codes == ((0, 5, 6), (0, 7))
    assert domain.impossible[1].attributes == ("years", "income")
    assert domain.impossible[0].describe(domain) == (
        "age below 15 or from 75 or null and yes no or null"
    )
    domain.save(path)
    assert "bounds: [0, 89]" in path.read_text()
    assert Domain.load(path) == domain


def test_the_papers_form(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text('{"sex": 2, "income>50K": 2, "attributes": 3}')
    assert Domain.load(path).sizes == {"sex": 2, "income>50K": 2, "attributes": 3}


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"value": ["x"]}, "unknown key 'value': allowed are values"),
        ({"values": ["x"], "bins": 3}, "unknown key 'bins'"),
        ({"edges": [0, 1], "other": "x"}, "unknown key 'other'"),
        ({"edges": [0, 1], "bounds": [0, 1]}, "needs one of values, prefix, edges, bounds"),
        ({"nullable": True}, "needs one of values, prefix, edges, bounds"),
        ({"values": "x"}, "values must be a list"),
        ({"values": ["x"], "nullable": "yes"}, "nullable must be true or false"),
        ({"values": ["x"], "dtype": 3}, "dtype must be a text"),
        ({"values": ["x"], "nullable": True, "unreadable": "null"}, "'missing' or 'apart'"),
        ({"edges": [0, 1], "unreadable": "missing"}, "declare `nullable: true` next to"),
        (
            {"edges": [0, 5, 9], "within": [[4, 6, 1]]},
            r"the entry \[4.0, 6.0, 1.0\] of within must",
        ),
        ({"edges": [0, 5, 9], "within": [[2, 1, 1]]}, "one value of a bin to the same or a larger"),
        ({"edges": [0, 5], "integer": True, "within": [[1.5, 1]]}, "the entry .* of within"),
        ({"edges": [0, 5], "within": [[1, 0]]}, "weight of within must be above 0"),
        ({"edges": [0, 5], "within": [[1]]}, "a first number, a last one and a weight"),
        ({"values": [1], "within": []}, "unknown key 'within'"),
        ({"edges": [0, 1], "outside": "drop"}, "'error' or 'clip'"),
        ({"edges": [0, 1], "bins": 1}, "bins belong to 'bounds'"),
        ({"edges": [0, 1], "decimals": 1.5}, "decimals must be an integer"),
        ({"bounds": [0, 1, 2], "bins": 3}, "two numbers"),
        ({"bounds": [0, "1"], "bins": 3}, "must be a number"),
        ({"bounds": [0, 1]}, "bins must be an integer"),
        ({"bounds": [0, 1], "bins": 10**9}, "bins must be an integer"),
        ({"bounds": [0, 10**9], "integer": True}, "bins must be an integer"),
        (["x"], "must be a mapping"),
    ],
)
def test_attributes_that_are_refused(attribute, message):
    with pytest.raises((SpecificationError, DomainError), match=message):
        Domain.from_dict({"attributes": {"a": attribute}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "'attributes'"),
        ([], "'attributes'"),
        ({"atributes": {}}, "unknown key 'atributes': allowed are attributes"),
        ({"attributes": {"a": {"values": [1]}}, "extra": 1}, "unknown key 'extra'"),
        ({"identified_from": "public"}, "no key 'attributes'"),
        ({"attributes": ["a"]}, "mapping of names"),
        ({"attributes": {"a": {"values": [1]}}, "impossible": {"a": 1}}, "must be a list"),
        ({"attributes": {"a": {"values": [1]}}, "impossible": [["a"]]}, "must be a mapping"),
    ],
)
def test_domains_that_are_refused(content, message):
    with pytest.raises(SpecificationError, match=message):
        Domain.from_dict(content)


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ({"age": {"below": 15}}, None, None),
        ({"age": {"below": 16}}, DomainError, "below 16 cuts through a bin"),
        ({"age": {"from": 15, "until": 20}}, SpecificationError, "unknown key 'until'"),
        ({"age": {"from": "15"}}, SpecificationError, "from must be a number"),
        ({"age": {"from": 100}}, DomainError, "no value meets"),
        ({"age": {"bins": [9]}}, DomainError, "bins outside 0 to 2"),
        ({"age": {"bins": [0], "from": 1}}, SpecificationError, "in addition to other keys"),
        ({"age": 20}, DomainError, "not the only value of a bin"),
        ({"age": "x"}, SpecificationError, "must be a number"),
        ({"age": None}, DomainError, "not nullable"),
        ({"sex": "x"}, DomainError, "not one of its values"),
        ({"sex": {"from": 1}}, DomainError, "not one of its values"),
        ({"sex": []}, DomainError, "no value meets"),
    ],
)
def test_conditions_on_what_is_impossible(condition, error, message):
    content = {
        "attributes": {
            "age": {"edges": [0, 15, 30, 60], "integer": True},
            "sex": {"values": ["f", "m"]},
        },
        "impossible": [condition],
    }
    if error is None:
        assert Domain.from_dict(content).impossible[0].codes == ((0,),)
        return
    with pytest.raises(error, match=message):
        Domain.from_dict(content)


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("missing.yaml", None, SourceError, "check the path"),
        ("domain.txt", "", SpecificationError, "must end in"),
        ("domain.yaml", "a: [", SourceError, "cannot parse"),
        ("domain.json", "{", SourceError, "cannot parse"),
        ("domain.yaml", "attributes: {a: {values: [x]}, a: {values: [y]}}", SourceError, "twice"),
        ("domain.json", '{"a": 1, "a": 2}', SourceError, "twice"),
        ("domain.yaml", "", SpecificationError, "must hold a mapping"),
    ],
)
def test_files_that_are_refused(tmp_path, name, text, error, message):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        Domain.load(path)


def test_a_small_file_makes_no_large_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers stand for values; attributes are made one by one, until they are too many."""
    monkeypatch.setattr(domain_file, "_MAX_VALUES", 1000)
    monkeypatch.setattr(domain_file, "_MAX_ATTRIBUTES", 50)
    Domain.from_sizes(dict.fromkeys("abcde", 200))
    wide = {"bounds": [0, 1], "bins": 200}
    unread = {"z": {"bounds": "none"}}
    for content in (
        {"attributes": dict.fromkeys("abcdef", wide) | unread},
        dict.fromkeys("abcdef", 200),
        {f"a{n}": 1 for n in range(51)},
    ):
        with pytest.raises(DomainError, match="more than 50 attributes, or more than 1,000 values"):
            Domain.from_dict(content)


def test_impossible_combinations_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impossible, "_MOST_CODES", 100)
    monkeypatch.setattr(domains, "_MAX_MASKED_CELLS", 2000)
    attributes = {"a": {"bounds": [0, 1], "bins": 50}, "b": {"values": list(range(10))}}
    half = {"a": {"from": 0.5}}
    with pytest.raises(DomainError, match="name more than 100 values"):
        Domain.from_dict({"attributes": attributes, "impossible": [half] * 5})
    one = {"a": {"bins": [0]}, "b": 1}
    with pytest.raises(DomainError, match="span more than 2,000 cells together"):
        Domain.from_dict({"attributes": attributes, "impossible": [one] * 5})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("domain.yaml", "a: 1" + "0" * 5000),
        ("domain.json", '{"a": 1' + "0" * 5000 + "}"),
        ("domain.yaml", "attributes: " + "[" * 100_000),
        ("domain.json", '{"attributes": {"a": ' + "[" * 900 + "]" * 900 + "}}"),
        ("domain.yaml", "a: &a [1, *a]"),
    ],
)
def test_a_file_beyond_a_limit_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=rf"{name}.*(digits|too deep|an alias)"):
        Domain.load(tmp_path / name)


def test_a_draft_has_short_numbers_and_what_nobody_edits_at_the_end(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "gain": np.where(rng.random(3000) < 0.4, 0.0, rng.normal(0, 3, 3000)),
            "price": (rng.gamma(2, 5, 3000) + 1).round(1).astype(np.float32),
            "share": rng.gamma(0.5, 3, 3000).astype(np.float32),
        }
    )
    draft = draft_table(table).domain
    draft.save(tmp_path / "domain.yaml")
    text = (tmp_path / "domain.yaml").read_text()
    assert not re.search(r"\de-\d{3}|\d\.\d{7,}", text)
    assert text.index("\nrepairs:") < text.index("\nwithin:\n  gain: [[")
    assert "within" not in text[: text.index("\nwithin:")]
    again = Domain.load(tmp_path / "domain.yaml")
    assert again == draft
    assert again.digest == draft.digest
    assert encode(table, again, private=False).records == 3000


@pytest.mark.parametrize("within", [{"b": [[1, 2]]}, [1], {"a": [[1, 2]]}])
def test_what_is_within_bins_is_of_an_attribute_and_is_there_once(within):
    attributes = {"a": {"edges": [0, 9], "within": [[1, 2]]}}
    with pytest.raises(SpecificationError, match="within"):
        Domain.from_dict({"attributes": attributes, "within": within})


def test_an_entry_up_to_an_edge_ends_below_it():
    content = {"attributes": {"a": {"edges": [-1, 0, 5]}}, "within": {"a": [[-1, 0, 3]]}}
    attribute = Domain.from_dict(content).attribute("a")
    assert attribute.within == ((-1.0, -5e-324, 3.0),)
    assert attribute.to_entry()["within"] == [[-1, 0, 3]]


def test_a_saved_file_has_the_text_that_a_certificate_is_of(tmp_path: Path) -> None:
    entry = {"bounds": [0, 10], "bins": 2, "integer": True, "within": [[1, 7], [6, 8, 3]]}
    domain = Domain.from_dict({"attributes": {"a": entry, "b": {"values": [1]}}})
    domain.save(tmp_path / "domain.yaml")
    text = (tmp_path / "domain.yaml").read_text()
    assert text == domain.to_yaml()
    assert text.index("within") > text.index("b:")
    assert Domain.load(tmp_path / "domain.yaml") == domain


def test_what_is_within_bins_of_children_ends_their_table(tmp_path: Path) -> None:
    entry = {"bounds": [0, 10], "bins": 2, "integer": True, "within": [[1, 7], [6, 8, 3]]}
    attributes = {"age": entry, "size": {"values": [1, 2]}}
    roots = Domain.from_dict({"attributes": attributes})
    link = Link("persons", "household", 3)
    children = Domain.from_dict({"attributes": attributes, "repairs": [{"not_null": ["size"]}]})
    domain = roots.with_children(link, children)
    domain.save(tmp_path / "domain.yaml")
    content = parse_yaml((tmp_path / "domain.yaml").read_text())
    assert list(content["children"]["persons"])[-1] == list(content)[-1] == "within"
    for one in (content, content["children"]["persons"]):
        assert one["within"] == {"age": entry["within"]}
        assert "within" not in one["attributes"]["age"]
    again = Domain.load(tmp_path / "domain.yaml")
    assert again == domain
    assert again.digest == domain.digest
