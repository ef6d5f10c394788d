"""Codes by their first characters: cells, what they decode to, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import jam_dagster
from jam_dagster.errors import DomainError, InputError, OutsideDomainError
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.domain.values import NULL_LABEL

WEIGHTS = {"E11.9": 6, "E11.65": 2, "I10": 4}


def domain_of(**keys: Any) -> Domain:
    return Domain.from_dict({"attributes": {"code": {"prefix": 3, "weights": WEIGHTS, **keys}}})


def coded(domain: Domain, *texts: object) -> list[int]:
    return encode(pd.DataFrame({"code": [*texts]}), domain, private=False).columns[0].tolist()


def test_a_cell_holds_the_codes_that_begin_alike() -> None:
    domain = domain_of(other="other", nullable=True)
    assert domain.attribute("code").labels == ("E11", "I10", "other", NULL_LABEL)
    # A code without a weight counts by its beginning.
    assert coded(domain, "E11.9", "E11.01", "I10", "Z99", "other", None) == [0, 0, 1, 2, 2, 3]
    assert coded(domain_of(nullable=True, unreadable="missing"), "E11", "Z99") == [0, 2]
    with pytest.raises(OutsideDomainError, match="not in the domain"):
        coded(domain_of(), "Z99")


@pytest.mark.parametrize(
    "keys", [{}, {"other": "other"}, {"nullable": True}, {"other": "x", "nullable": True}]
)
def test_decoded_codes_have_their_weights_and_their_cells(keys: dict[str, Any]) -> None:
    domain = domain_of(**keys)
    codes = np.repeat(np.arange(domain.sizes["code"], dtype=np.uint8), 20_000)
    table = decode(EncodedTable(domain, (codes,)), np.random.default_rng(0))
    assert np.array_equal(encode(table, domain).columns[0], codes)
    # 20,000 draws of chance 3/4 are within .03 of it but for a chance below 1e-20.
    shares = table["code"][:20_000].value_counts(normalize=True)
    assert abs(shares["E11.9"] - 0.75) < 0.03
    assert set(shares.index) == {"E11.9", "E11.65"}
    listed = domain.attribute("code").listed_codes(table["code"])
    assert np.array_equal(listed, codes)


def test_a_synthetic_table_is_checked_for_whole_codes() -> None:
    attribute = domain_of(other="other", nullable=True).attribute("code")
    column = pd.Series(["E11.9", "E11.01", "other", None], dtype=object)
    assert attribute.listed_codes(column).tolist() == [0, -1, 2, 3]
    assert attribute.listed == ("E11.65", "E11.9", "I10", "other")


def test_the_file_form_is_read_back() -> None:
    domain = domain_of(other="other", nullable=True, unreadable="error")
    again = Domain.from_dict(domain.to_dict())
    assert again == domain
    assert again.digest == domain.digest
    other = Domain.from_dict(
        {"attributes": {"code": {"prefix": 3, "weights": {**WEIGHTS, "I10": 5}, "other": "other"}}}
    )
    assert other.digest != domain.digest


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"prefix": 0}, "prefix is the number of characters"),
        ({"prefix": 2**31}, "1 to 1,000, got 2147483648"),
        ({"prefix": True}, "prefix is the number of characters"),
        ({"weights": {}}, "weights of 1 to 100,000 codes"),
        ({"weights": ["E11"]}, "weights must map each code"),
        ({"weights": {10001: 3}}, "10001 is not a text: write it in quotes"),
        ({"weights": {"E11\ud800": 3}}, "a value must be a text"),
        ({"weights": {"E11": 0}}, "whole number above 0, at most .* got 0"),
        ({"weights": {"E11": 1.5}}, "whole number above 0, at most .* got 1.5"),
        ({"other": "E11"}, "begins like no code"),
        ({"other": 3}, "begins like no code"),
        ({"values": ["E11"]}, "needs one of values, prefix, edges, bounds"),
        ({"bins": 3}, "unknown key 'bins'"),
    ],
)
def test_what_is_no_code_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        domain_of(**keys)


def test_conditions_name_beginnings() -> None:
    content = {
        "attributes": {
            "code": {"prefix": 3, "weights": WEIGHTS},
            "age": {"bounds": [0, 9], "integer": True},
        },
        "impossible": [{"code": "I10", "age": {"below": 2}}],
    }
    domain = Domain.from_dict(content)
    assert domain.impossible[0].codes[0] == (1,)
    content["impossible"] = [{"code": "E11.9", "age": {"below": 2}}]
    with pytest.raises(DomainError, match="not one of its values"):
        Domain.from_dict(content)


def test_a_release_has_whole_public_codes_that_go_with_other_columns() -> None:
    def table(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        chapter = rng.integers(0, 5, 2000)
        codes = [f"{'AEIJK'[one]}{rng.integers(10, 30)}.{seed}" for one in chapter]
        return pd.DataFrame({"code": codes, "age": 10 * chapter + rng.integers(0, 9, 2000)})

    public, private = table(1), table(2)
    release = jam_dagster.synthesize(
        *(private, public),
        epsilon=1.0,
        mechanism="mwem_pgm",
        noise="numpy",
        evaluation_mode="off",
    )
    codes, ages = release.table["code"], release.table["age"].astype(float)
    assert set(codes.dropna()) <= set(public["code"])
    # True means are 4, 14, 24, 34 and 44.
    means = ages.groupby(codes.str[0]).mean()
    assert means["K"] - means["A"] > 20
