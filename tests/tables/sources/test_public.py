"""Several public sources: configuration, encoding and the domain that they tell together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, InputError, OutsideDomainError, SpecificationError
from jam_dagster.tables import (
    CategoricalAttribute,
    CsvSource,
    Domain,
    EncodedTable,
    NumericAttribute,
    ParquetSource,
    PublicSources,
    PublicTables,
)
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import Draw, PaidCounts
from jam_dagster.tables.sources.base import absolute_paths
from jam_dagster.tables.sources.partition_template import at_partition, is_partitioned
from jam_dagster.tables.sources.previous_release import public_from_config
from jam_dagster.tables.sources.public import (
    draft_public,
    encode_public,
    encoded_tables,
    lacking,
    over_bought,
)

CONFIG = {"tables": {"census": "census.parquet", "survey": {"csv": "s_{partition}.csv"}}}
CENSUS = pd.DataFrame({"sex": ["f", "m", "f"], "age": [30, 40, 50]})
SURVEY = pd.DataFrame({"job": ["a", "b"], "sex": ["m", "f"]})


def test_tables_are_configured_by_name(tmp_path: Path) -> None:
    made = public_from_config(CONFIG)
    assert made == PublicSources(
        {"census": ParquetSource("census.parquet"), "survey": CsvSource("s_{partition}.csv")}
    )
    assert public_from_config(made.to_dict()) == made
    assert made.describe() == (
        "census: Parquet file census.parquet; survey: CSV file s_{partition}.csv"
    )
    there = public_from_config(absolute_paths(CONFIG, tmp_path))
    assert isinstance(there, PublicSources)
    assert there.tables["survey"] == CsvSource(str(tmp_path / "s_{partition}.csv"))


def test_partitions_stand_in_any_of_them() -> None:
    made = public_from_config(CONFIG)
    assert isinstance(made, PublicSources)
    assert is_partitioned(made)
    assert at_partition(made, "2026-01").tables == {
        "census": ParquetSource("census.parquet"),
        "survey": CsvSource("s_2026-01.csv"),
    }
    assert not is_partitioned(PublicSources({"census": ParquetSource("census.parquet")}))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"tables": {}}, "at least one table"),
        ({"tables": ["a.csv"]}, "tables by name"),
        ({"tables": {"Census": "a.csv"}}, "lower-case letter.*'Census'"),
        ({"tables": {"a/b": "a.csv"}}, "lower-case letter"),
        ({"tables": {"a": {"csv": "a.csv", "colour": 1}}}, r"public\.tables\.a: .*colour"),
        ({"tables": {"a": "a.csv"}, "csv": "b.csv"}, "csv"),
    ],
)
def test_bad_configuration_is_named(config: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecificationError, match=expected):
        public_from_config(config)


def test_each_is_encoded_over_what_it_has() -> None:
    frames = {"census": CENSUS, "survey": SURVEY}
    domain = draft_public(frames).domain
    assert domain.names == ("sex", "age", "job")
    assert domain.identified_from == "public"
    assert lacking(SURVEY, domain) == ["age"]
    public = encode_public(frames, domain)
    assert isinstance(public, PublicTables)
    assert {name: table.domain.names for name, table in public.tables.items()} == {
        "census": ("sex", "age"),
        "survey": ("sex", "job"),
    }
    assert public.marginal(("sex",)).sum() == 3
    assert list(encoded_tables(public)) == ["census", "survey"]
    with pytest.raises(InputError, match="encode them"):
        encoded_tables(_File())  # type: ignore[arg-type]


class _File:
    """A table that is not in memory."""


def test_a_column_that_the_domain_clips_is_known_by_its_share() -> None:
    age = NumericAttribute("age", (0, 35, 45), integer=True, clip=True)
    domain = Domain((age, CategoricalAttribute("sex", ("f", "m"))))
    encoded = encode_public({"": CENSUS}, domain)
    assert isinstance(encoded, EncodedTable)
    assert encoded.clipped == {"age": pytest.approx(1 / 3)}
    several = encode_public({"census": CENSUS, "young": CENSUS.assign(age=10)}, domain)
    assert isinstance(several, PublicTables)
    assert encoded_tables(several)["census"].clipped == encoded.clipped
    assert encoded_tables(several)["young"].clipped == {}
    # A fifth is little, and of private bounds nothing is said.
    few = pd.concat([CENSUS.assign(age=30), CENSUS.assign(age=30), CENSUS])
    assert encode_public({"": few}, domain).clipped == {}  # type: ignore[union-attr]
    assert encode_public({"": CENSUS}, domain, private=True).clipped == {}  # type: ignore[union-attr]


def test_a_table_that_lacks_attributes_can_be_given_by_name_where_that_helps() -> None:
    domain = draft_public({"": CENSUS}).domain
    part, other = CENSUS[["sex"]], SURVEY[["job"]]
    with pytest.raises(DomainError, match=r"no column 'age'.*; or .*--public NAME=TABLE"):
        encode_public({"": part}, domain, may_be_named=True)
    for frame, may_be_named in ((part, False), (other, True)):
        with pytest.raises(DomainError, match=r"remove the attribute from the domain$"):
            encode_public({"": frame}, domain, may_be_named=may_be_named)


def test_what_does_not_fit_names_the_table() -> None:
    domain = draft_public({"census": CENSUS}).domain
    with pytest.raises(DomainError, match=r"Public table 'survey'.*no column of the domain"):
        encode_public({"census": CENSUS, "survey": SURVEY[["job"]]}, domain)
    strange = pd.DataFrame({"age": ["old"]})
    declared = Domain((NumericAttribute("age", (0, 100)),))
    with pytest.raises((DomainError, OutsideDomainError), match="Public table 'survey'"):
        encode_public({"survey": strange}, declared)


def test_a_column_is_drafted_from_the_first_table_that_allows_it() -> None:
    frames = {"one": CENSUS.assign(year=2013, id=None), "two": SURVEY.assign(year=[1, 2])}
    draft = draft_public(frames)
    assert draft.domain.names == ("sex", "age", "job", "year")
    assert [str(one) for one in draft.left_out] == ["id: is missing in every row"]
    assert draft_public(frames, columns=["job", "age"]).domain.names == ("age", "job")
    with pytest.raises(InputError, match=r"'agee': did you mean age\?"):
        draft_public(frames, columns=["agee"])


def test_notes_say_which_table_they_are_about():
    numbers = pd.DataFrame({"a": [f"{one}" for one in range(60)] * 2})
    texts = pd.DataFrame({"a": ["1", "refused"] * 60, "b": ["Q1 2024", "Q2 2024"] * 60})
    notes = draft_public({"census": numbers.astype(int), "survey": texts}).notes
    assert notes == {
        "a": "in survey: 60 of 120 public cells are released as missing, such as 'refused'",
        "b": "in survey: looks like months, quarters or weeks: later ones than the public table's"
        " are missing",
    }


def test_codes_over_what_was_asked_for_are_those_of_what_was_bought() -> None:
    """Each public value has its name; what was not asked for stays as it is."""
    asking = Domain.from_dict(
        {
            "attributes": {
                "town": {"values": "paid", "at_most": 3, "public": ["Ur", "Oz"]},
                "sex": {"values": ["f", "m"]},
                "age": {"edges": "paid", "integer": True, "bins": 4, "range": [0, 100]},
            }
        }
    )
    table = pd.DataFrame(
        {
            "town": ["Oz", "Ur", "Lud", None, "value 1 of 3"],
            "sex": list("fmmff"),
            "age": [0, 30, 60, 99, None],
        }
    )
    public = encode_public({"": table}, asking)

    def selected(draws: Sequence[Draw]) -> list[PaidCounts]:
        (draw,) = draws
        if not draw.attribute.binned:
            names = ("Lud", "Abu"), 1e-9, 9
            return [PaidCounts(draw.step, "town", 2, 0.1, 1.0, 2.0, (70, 60), *names)]
        assert isinstance(draw.attribute, BinnedAttribute)
        counts = [1000 if one <= 40 else 0 for one in draw.attribute.edges[1:]]
        cells = draw.attribute.size
        counts += [0] * (cells - len(counts))
        return [PaidCounts(draw.step, "age", cells, 0.1, 1.0, 2.0, tuple(counts))]

    bought = asking.buy(selected)
    assert bought.attribute("town").listed == ("Ur", "Oz", "Abu", "Lud", "other")
    over = over_bought(public, bought)
    assert isinstance(over, EncodedTable)
    assert over.domain is bought
    # A town that was not asked for as a public one is not known in public.
    assert over.column("town").tolist() == [1, 0, 4, 5, 4]
    assert over.column("sex").tolist() == [0, 1, 1, 0, 0]
    # The middles of bins say where a table is whose own domain had no edges.
    age = bought.attribute("age")
    assert isinstance(age, BinnedAttribute)
    assert age.edges[-1] <= 40
    assert over.column("age").tolist() == [
        *(int(np.searchsorted(age.edges, one, side="right")) - 1 for one in (12.5, 37.5)),
        *(age.bins - 1, age.bins - 1, age.null_code),
    ]
    assert over_bought(public, asking) is public
    assert over_bought(over, bought) is over
    assert over_bought(None, bought) is None
