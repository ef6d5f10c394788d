"""Two tables made into one of a row a root, and one into two."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jam_dagster.errors import InputError, PrivateValuesError
from jam_dagster.tables import Domain, EncodedTable, Workload, encode
from jam_dagster.tables.codes.roots import (
    decode_two,
    encode_roots,
    encode_two,
    exchanged,
    roots_with_children,
)
from jam_dagster.tables.domain.children import Link

KEY = bytes(32)
LINK = Link("persons", "id", 4)
DOMAIN = Domain.from_sizes({"region": 2}).with_children(
    LINK, Domain.from_sizes({"job": 5, "sex": 2})
)


def households(number: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return households of up to four persons, whose jobs are alike within a household."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(10 * number)[:number]
    sizes = rng.integers(0, 5, size=number)
    own = np.repeat(rng.integers(0, 5, size=number), sizes)
    jobs = np.where(rng.random(len(own)) < 0.7, own, rng.integers(0, 5, size=len(own)))
    persons = pd.DataFrame({"id": np.repeat(ids, sizes), "job": jobs})
    persons["sex"] = rng.integers(0, 2, size=len(own))
    roots = pd.DataFrame({"id": ids, "region": rng.integers(0, 2, size=number)})
    return roots, persons.sample(frac=1, random_state=seed)


def same_jobs(persons: pd.DataFrame) -> float:
    """Return the share of pairs of a household's persons with one job."""
    persons = persons.assign(place=range(len(persons)))
    pairs = persons.merge(persons, on="id")
    pairs = pairs[pairs.place_x < pairs.place_y]
    return float((pairs.job_x == pairs.job_y).mean())


def encoded(roots: pd.DataFrame, persons: pd.DataFrame, rows: int = 10_000) -> EncodedTable:
    """Return two private tables encoded, which come in batches of some rows."""
    tables = (
        [table.iloc[start : start + rows] for start in range(0, max(len(table), 1), rows)]
        for table in (roots, persons)
    )
    return encode_roots(*tables, DOMAIN, KEY)


def rows_of(table: EncodedTable) -> list[tuple[int, ...]]:
    return [*zip(*(column.tolist() for column in table.columns), strict=True)]


@pytest.mark.parametrize("rows", [7, 10_000])
def test_a_row_depends_on_its_own_household_alone(rows: int) -> None:
    roots, persons = households(200, 1)
    whole = rows_of(encoded(roots, persons, rows))
    for some in (slice(0, 1), slice(50, 120)):
        part = roots.iloc[some]
        alone = encoded(part, persons[persons.id.isin(part.id)])
        assert rows_of(alone) == whole[some]


def test_no_order_of_persons_decides_who_is_drawn() -> None:
    roots, persons = households(200, 8)
    whole = rows_of(encoded(roots, persons))
    for seed in range(3):
        mixed = persons.sample(frac=1, random_state=seed)
        assert rows_of(encoded(roots, mixed, 50)) == whole
    assert len(set(whole)) > 50


def test_arrow_data_is_encoded_as_frames_are() -> None:
    roots, persons = households(60, 9)
    roots = pd.concat([roots, roots.head(20).assign(region=0)])
    arrow = (
        pa.Table.from_pandas(table, preserve_index=False).to_batches(16)
        for table in (roots, persons)
    )
    assert rows_of(encode_roots(*arrow, DOMAIN, KEY)) == rows_of(encoded(roots, persons))


def test_the_two_are_persons_of_the_household_and_their_number_is_its_own() -> None:
    roots, persons = households(300, 2)
    flat = roots_with_children(roots, persons, LINK)
    assert flat["persons"].tolist() == [int((persons.id == one).sum()) for one in roots.id]
    for row, household in enumerate(roots.id):
        jobs = persons.job[persons.id == household].tolist()
        for slot in ("persons.1.job", "persons.2.job"):
            if not pd.isna(flat[slot][row]):
                jobs.remove(flat[slot][row])
    assert flat["persons.1.job"].notna().equals(flat["persons"] >= 1)
    assert flat["persons.2.job"].notna().equals(flat["persons"] >= 2)


def test_every_pair_of_persons_is_as_likely_in_both_orders() -> None:
    # False failure below 1e-6: 5 standard deviations of 12 binomial counts.
    number = 6000
    roots = pd.DataFrame({"id": range(number), "region": 0})
    persons = pd.DataFrame({"id": np.repeat(range(number), 4), "job": [0, 1, 2, 3] * number})
    persons["sex"] = 0
    flat = roots_with_children(roots, persons, LINK)
    counts = pd.crosstab(flat["persons.1.job"], flat["persons.2.job"]).to_numpy()
    assert (np.diag(counts) == 0).all()
    expected = number / 12
    assert (np.abs(counts[~np.eye(4, dtype=bool)] - expected) < 5.2 * expected**0.5).all()


def test_a_household_of_many_keeps_the_largest_number_by_chance_and_not_by_order() -> None:
    roots = pd.DataFrame({"id": range(400), "region": 0})
    persons = pd.DataFrame(
        {"id": np.repeat(range(400), 9), "job": [0, 0, 0, 0, 4, 4, 4, 4, 4] * 400}
    )
    persons["sex"] = 0
    flat = roots_with_children(roots, persons, LINK)
    assert set(flat["persons"]) == {4}
    # 5 of 9, within five standard deviations.
    assert abs((flat["persons.1.job"] == 4).mean() - 5 / 9) < 5 * 0.5 / 20


def test_orphans_and_second_rows_of_a_root_leave_no_trace() -> None:
    roots, persons = households(50, 3)
    expected = rows_of(encoded(roots, persons))
    strays = pd.DataFrame({"id": [-5, None, -6], "job": [9, 9, 9], "sex": [9, 9, 9]})
    assert rows_of(encoded(roots, pd.concat([strays, persons]))) == expected
    assert sorted(rows_of(encoded(pd.concat([roots, roots]), persons))) == sorted(expected)
    assert len(roots_with_children(pd.concat([roots, roots]), persons, LINK)) == 50


def test_a_root_without_a_key_is_refused_without_a_name() -> None:
    roots, persons = households(5, 4)
    broken = roots.astype(object)
    broken.loc[2, "id"] = None
    with pytest.raises(PrivateValuesError):
        encoded(broken, persons)
    for refuse in (encoded, lambda *tables: roots_with_children(*tables, LINK)):
        with pytest.raises(InputError, match="table 'persons' has no column 'id'"):
            refuse(roots, persons.drop(columns="id"))


def test_codes_tell_a_missing_value_from_no_child() -> None:
    domain = Domain.from_sizes({"region": 2}).with_children(
        LINK,
        Domain.from_dict({"attributes": {"job": {"values": ["a", "b"], "nullable": True}}}),
    )
    roots = pd.DataFrame({"id": [1, 2, 3], "region": [0, 1, 0]})
    persons = pd.DataFrame({"id": [1, 3, 3], "job": [None, "a", "b"]})
    codes = encode_roots([roots], [persons], domain, KEY)
    assert codes.column("persons.1.job")[:2].tolist() == [2, 3]
    assert sorted([codes.column(f"persons.{slot}.job")[2] for slot in (1, 2)]) == [0, 1]
    assert codes.column("persons.2.job")[:2].tolist() == [3, 3]


def test_two_tables_come_back_with_whole_keys_and_the_pairs_of_siblings() -> None:
    roots, persons = households(4000, 5)
    codes = encode(roots_with_children(roots, persons, LINK), DOMAIN)
    rng = np.random.default_rng(0)
    made, children = decode_two(exchanged(codes, rng), rng)
    assert made["id"].tolist() == list(range(1, 4001))
    number = children.groupby("id").size().reindex(made["id"], fill_value=0)
    assert number.tolist() == codes.column("persons").tolist()
    assert children.columns.tolist() == ["id", "job", "sex"]
    truth = same_jobs(persons)
    # Independent persons would have one job in a fifth of the pairs.
    assert truth > 0.5
    # Third persons follow the first one alone, so two later ones are a little less alike.
    assert abs(same_jobs(children) - truth) < 0.1


def test_later_persons_have_the_shares_of_their_region() -> None:
    """A person that goes with its siblings is not of a commoner or a rarer job for that.

    Seeds are fixed. The distance, half of L1, is .03 if persons are chosen by their siblings alone.
    """
    roots, persons = households(8000, 7)
    # In one region most households have the last job.
    moved = persons["id"].isin(roots.id[roots.region == 1]) & (persons["job"] < 2)
    persons.loc[moved, "job"] = 4
    codes = encode(roots_with_children(roots, persons, LINK), DOMAIN)
    rng = np.random.default_rng(0)
    made, children = decode_two(exchanged(codes, rng), rng)

    def shares(roots: pd.DataFrame, persons: pd.DataFrame) -> pd.Series:
        merged = persons.merge(roots, on="id")
        return merged.groupby(["region", "job"]).size() / len(merged)

    later = children[children.groupby("id").cumcount() >= 2]
    wanted = shares(roots, persons[persons.id.map(persons.id.value_counts()) >= 3])
    assert 0.5 * (shares(made, later) - wanted).abs().sum() < 0.02


def test_the_two_slots_count_alike() -> None:
    roots, persons = households(4000, 6)
    flat = roots_with_children(roots, persons, LINK)
    # As a model may have it: one job only in the second slot.
    flat.loc[flat["persons"] >= 2, "persons.2.job"] = 4
    codes = exchanged(encode(flat, DOMAIN), np.random.default_rng(0))
    several = codes.column("persons") >= 2
    first, second = ((codes.column(f"persons.{slot}.job")[several] == 4) for slot in (1, 2))
    # Six standard deviations of the difference of two means.
    assert abs(first.mean() - second.mean()) < 6 * (0.5 / several.sum()) ** 0.5


def test_no_marginal_is_of_both_children_but_their_pairs() -> None:
    cliques = Workload.all_k_way(DOMAIN, 3).cliques
    assert ("region", "persons", "persons.2.sex") in cliques
    assert ("persons.1.job", "persons.2.job") in cliques
    both = [one for one in cliques if any(".1." in a for a in one) and any(".2." in a for a in one)]
    assert both == [("persons.1.job", "persons.2.job"), ("persons.1.sex", "persons.2.sex")]
    assert all(len(one) == 1 for one in Workload.all_k_way(DOMAIN, 1).cliques)


@pytest.mark.parametrize("number", [1, 80])
def test_two_tables_are_encoded_as_the_rows_that_they_are_of(number: int) -> None:
    roots, persons = households(80, 6)
    flat = roots_with_children(roots.head(number), persons, LINK)
    codes = encode(flat, DOMAIN, private=False)
    again = encode_two(*decode_two(codes, np.random.default_rng(0)), DOMAIN)
    for one, other in zip(codes.columns, again.columns, strict=True):
        np.testing.assert_array_equal(one, other)
