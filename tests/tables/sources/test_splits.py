import pandas as pd
import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables import stratified_split

TABLE = pd.DataFrame({"id": range(1000), "sex": ["f"] * 330 + ["m"] * 660 + [None] * 10})


def split(**arguments):
    defaults = {"by": "sex", "value": "f", "public_share": 0.75, "public_rows": 100, "seed": 0}
    return stratified_split(TABLE, **defaults | arguments)


def test_shares_and_sizes():
    private, public = split()
    assert len(public) == 100
    assert (public["sex"] == "f").sum() == 75
    assert len(private) == 900
    assert sorted([*private["id"], *public["id"]]) == list(range(1000))
    assert private["id"].is_monotonic_increasing
    assert private.index.tolist() == list(range(900))


def test_a_fraction_of_the_rows():
    assert len(split(public_rows=0.2)[1]) == 200


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_the_private_share_too(share):
    private, public = split(private_share=share)
    assert abs((private["sex"] == "f").mean() - share) < 1 / len(private)
    assert not set(private["id"]) & set(public["id"])
    # Rows of one kind are all kept.
    kept = (private["sex"] == "f").sum()
    assert kept == 255 or len(private) - kept == 645


def test_the_seed_fixes_the_rows():
    assert split()[1].equals(split()[1])
    assert not split()[1].equals(split(seed=1)[1])


def test_values_are_matched_by_their_text():
    table = pd.DataFrame({"code": [1.0, 2.0, None, 1.0]})
    _, public = stratified_split(table, by="code", value=1, public_share=1.0, public_rows=2, seed=0)
    assert public["code"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"public_share": 1.5}, SpecificationError, "public_share must be from 0 to 1"),
        ({"private_share": -0.1}, SpecificationError, "private_share must be from 0 to 1"),
        ({"public_share": float("nan")}, SpecificationError, "public_share"),
        ({"public_rows": 0}, SpecificationError, "public_rows"),
        ({"public_rows": 10.5}, SpecificationError, "public_rows"),
        ({"by": "gender"}, InputError, "one column 'gender'"),
        ({"public_rows": 500}, InputError, "lower public_rows or change public_share"),
        ({"value": "x"}, InputError, "lower public_rows or change public_share"),
        ({"public_rows": 0.0001}, InputError, "public_rows"),
        ({"public_rows": 330, "public_share": 1.0, "private_share": 1.0}, InputError, "no private"),
    ],
)
def test_splits_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        split(**arguments)
