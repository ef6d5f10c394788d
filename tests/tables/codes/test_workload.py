import dataclasses
import hashlib
import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError
from jam_dagster.tables import Domain, Workload

DOMAIN = Domain.from_sizes({"d": 2, "c": 2, "b": 2, "a": 2})


def test_all_k_way():
    workload = Workload.all_k_way(DOMAIN, 2)
    assert workload.cliques[:3] == (("d", "c"), ("d", "b"), ("d", "a"))
    assert len(workload) == math.comb(4, 2)
    assert set(workload.weights) == {1.0}


@pytest.mark.parametrize("k", [0, 5, 1.0, True])
def test_degrees_that_are_refused(k):
    with pytest.raises(InputError, match="integer from 1 to 4"):
        Workload.all_k_way(DOMAIN, k)


def test_listed_marginals_come_in_the_order_of_the_domain():
    workload = Workload.of(DOMAIN, [["a", "d"], "c"], weights=[2, 1])
    assert workload.cliques == (("d", "a"), ("c",))
    assert workload.weights == (2.0, 1.0)
    # c stands before a in the domain, though it occurs after it.
    assert workload.downward_closure() == (("d",), ("c",), ("a",), ("d", "a"))


@pytest.mark.parametrize(
    ("cliques", "weights", "message"),
    [
        ([], None, "at least one marginal"),
        ([[]], None, "at least one attribute"),
        ([["x"]], None, "no attribute 'x'"),
        ([["a", "a"]], None, "an attribute twice"),
        ([["a", "b"], ["b", "a"]], None, "a marginal twice"),
        ([["a"]], [1, 2], "as many weights"),
        ([["a"]], [0], "positive"),
        ([["a"]], [math.nan], "positive"),
        ([["a"]], [math.inf], "finite"),
    ],
)
def test_workloads_that_are_refused(cliques, weights, message):
    with pytest.raises(InputError, match=message):
        Workload.of(DOMAIN, cliques, weights)


def test_a_marginal_out_of_order_is_refused():
    with pytest.raises(InputError, match=r"Workload\.of"):
        Workload((("a", "d"),), (1.0,), DOMAIN.names)


def test_the_digest_is_that_of_marginals_and_weights_in_any_order():
    one = Workload.of(DOMAIN, [["a", "d"], ["c"]], weights=[2, 1])
    assert one.digest == Workload.of(DOMAIN, [["c"], ["d", "a"]], weights=[1, 2]).digest
    # It is stored with transcripts, so it must not change with versions.
    assert one.digest == hashlib.sha256(b'[[["c"],1.0],[["d","a"],2.0]]').hexdigest()
    others = [
        Workload.of(DOMAIN, [["a", "d"], ["c"]], weights=[1, 2]),
        Workload.of(DOMAIN, [["a", "d"], ["b"]], weights=[2, 1]),
        Workload.of(DOMAIN, [["a", "d"]], weights=[2]),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4


@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=4))
def test_downward_closure_is_every_subset_once_in_order(sets):
    unique = {frozenset(one) for one in sets}
    closure = Workload.of(DOMAIN, [sorted(one) for one in unique]).downward_closure()
    subsets = {
        frozenset(subset)
        for one in unique
        for length in range(1, len(one) + 1)
        for subset in combinations(one, length)
    }
    assert {frozenset(one) for one in closure} == subsets
    assert len(closure) == len(subsets)
    places = [(len(one), [DOMAIN.names.index(name) for name in one]) for one in closure]
    assert places == sorted(places)


def test_a_workload_without_end_is_not_begun():
    domain = Domain.from_sizes({f"a{n}": 2 for n in range(200)})
    with pytest.raises(InputError, match=r"degree 100 has .* marginals, more than the 5,000,000"):
        Workload.all_k_way(domain, 100)
    with pytest.raises(InputError, match="subsets, more than the 268,435,456"):
        Workload.of(domain, [domain.names]).downward_closure()


def test_related_pairs_are_added_where_no_marginal_holds_them():
    related = dataclasses.replace(DOMAIN, related=(("b", "c"), ("a", "d")))
    assert related.related == (("d", "a"), ("c", "b"))
    one = Workload.specified(related, {"cliques": [["a", "d"], ["c"]], "weights": [4, 2]})
    assert one.related == (("c", "b"),)
    assert dict(zip(one.cliques, one.weights, strict=True))["c", "b"] == 3.0
    assert one.digest != Workload.of(DOMAIN, [["a", "d"], ["c"]], weights=[4, 2]).digest
    # A purpose has its half of all of them.
    served = Workload.specified(related, {"degree": 1, "purpose": [{"pairs": [["a", "b"]]}]})
    assert (served.related, served.purpose) == (related.related, (("b", "a"),))
    assert served.weights == (1.0,) * 6 + (6.0,)
    # All pairs are within all marginals of two.
    plain = Workload.all_k_way(DOMAIN, 2)
    assert Workload.specified(related, {"degree": 2}).digest == plain.digest
