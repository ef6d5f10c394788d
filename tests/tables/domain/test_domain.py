import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    ImpossibleCombination,
    NumericAttribute,
    health_survey_domain,
)

SMALL = Domain(
    (
        CategoricalAttribute("a", ("x", "y")),
        NumericAttribute("b", (0, 1, 2, 3)),
        CategoricalAttribute("c", (True, False), nullable=True),
    )
)


def test_sizes_and_order():
    assert SMALL.names == ("a", "b", "c")
    assert SMALL.shape == (2, 3, 3)
    assert SMALL.sizes == {"a": 2, "b": 3, "c": 3}
    assert SMALL.size(("c", "a")) == 6
    assert SMALL.size() == 18
    assert SMALL.size(()) == 1
    assert SMALL.canonical(["c", "a", "c"]) == ("a", "c")
    assert SMALL.project({"c", "a"}).names == ("a", "c")


def test_unknown_names_are_told_with_the_nearest():
    domain = Domain.from_sizes({"workclass": 3, "age": 2})
    with pytest.raises(InputError, match="did you mean 'workclass'"):
        domain.canonical(["workclas"])
    with pytest.raises(InputError, match="it has workclass, age"):
        domain.attribute("zzz")


def test_the_size_of_a_huge_domain_is_exact():
    domain = Domain.from_sizes({f"x{place}": 1000 for place in range(40)})
    assert domain.size() == 10**120
    assert len(domain.digest) == 64


@pytest.mark.parametrize(
    ("attributes", "impossible", "message"),
    [
        ((), (), "at least one"),
        ((SMALL.attributes[0], SMALL.attributes[0]), (), "'a' twice"),
        (SMALL.attributes, (ImpossibleCombination(("a",), ((2,),)),), "outside attribute 'a'"),
        (SMALL.attributes, (ImpossibleCombination(("a", "a"), ((0,), (1,))),), "twice"),
        (SMALL.attributes, (ImpossibleCombination(("a",), ((0, 1),)),), "nothing possible"),
        (
            SMALL.attributes,
            tuple(ImpossibleCombination(("a",), ((code,),)) for code in (0, 1)),
            "nothing possible",
        ),
    ],
)
def test_domains_that_are_refused(attributes, impossible, message):
    with pytest.raises(DomainError, match=message):
        Domain(attributes, impossible)


@pytest.mark.parametrize("size", [0, -1, True, 2.0, 10**12])
def test_sizes_that_are_refused(size):
    with pytest.raises(DomainError, match="number of codes"):
        Domain.from_sizes({"a": size})


def test_an_impossible_combination_over_too_many_cells_is_refused():
    attributes = Domain.from_sizes({"a": 10_000, "b": 10_000}).attributes
    with pytest.raises(DomainError, match="100,000,000 cells"):
        Domain(attributes, (ImpossibleCombination(("a", "b"), ((0,), (0,))),))


def test_provenance():
    assert not SMALL.restricted
    assert Domain(SMALL.attributes, (), "private").restricted
    with pytest.raises(DomainError, match="identified_from"):
        Domain(SMALL.attributes, (), "hearsay")


def test_impossible_masks_merge_combinations_of_a_clique():
    domain = Domain(
        SMALL.attributes,
        (
            ImpossibleCombination(("b", "a"), ((0, 1), (1,))),
            ImpossibleCombination(("a", "b"), ((0,), (2,))),
            ImpossibleCombination(("c",), ((2,),)),
        ),
    )
    masks = domain.impossible_masks()
    assert masks["a", "b"].tolist() == [[False, False, True], [True, True, False]]
    assert masks["c",].tolist() == [False, False, True]
    assert set(domain.project(("b", "c")).impossible_masks()) == {("c",)}


def test_digest_is_of_what_is_declared_and_not_of_where_it_comes_from():
    assert Domain(SMALL.attributes, (), "private").digest == SMALL.digest
    changed = [
        Domain(SMALL.attributes[::-1]),
        Domain((CategoricalAttribute("a", ("y", "x")), *SMALL.attributes[1:])),
        Domain((*SMALL.attributes[:2], CategoricalAttribute("c", (1, 0), nullable=True))),
        Domain((*SMALL.attributes[:2], CategoricalAttribute("c", (True, False)))),
        Domain(SMALL.attributes, (ImpossibleCombination(("a",), ((0,),)),)),
        *(
            Domain((NumericAttribute("a", (0, 1), nullable=True, unreadable=unreadable),))
            for unreadable in ("error", "missing")
        ),
    ]
    assert len({one.digest for one in [SMALL, *changed]}) == 8


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_digest_is_the_same_in_another_process(hash_seed):
    code = (
        "from jam_dagster.tables import health_survey_domain; print(health_survey_domain().digest)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == health_survey_domain().digest


def test_digest_of_a_known_domain_has_not_moved():
    # Releases are known by it: a change would charge for them again.
    assert Domain.from_sizes({"a": 2}).digest == (
        "d67de9211eae68f23e1fea2f0ab7b13c55d715e67e669e7dd90afeba6b05d409"
    )


@given(st.from_type(Domain))
def test_equal_domains_have_equal_digests(domain):
    again = Domain.from_dict(domain.to_dict())
    assert again == domain
    assert again.digest == domain.digest
    assert again.identified_from == domain.identified_from
    assert np.prod(domain.shape) == domain.size()


@pytest.mark.parametrize(
    ("sizes", "text"),
    [([10], "10"), ([10, 12], "120"), ([1000] * 3, "1e+09"), ([12, *[10] * 399], "1.2e+400")],
)
def test_the_number_of_cells_as_text(sizes, text):
    domain = Domain.from_sizes({f"a{place}": size for place, size in enumerate(sizes)})
    assert domain.cells_text == text
