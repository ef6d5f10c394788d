"""Mechanisms are found in the modules of their folder."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, Mechanism, make_mechanism, mechanism_class

OWN = list(MECHANISMS)


def test_mechanisms_of_this_package_are_found_in_their_order() -> None:
    in_order = [
        *("jam_pgm", "aim", "mwem_pgm", "mst", "independent", "gaussian", "pmw_pub", "mwem"),
        *("pep", "pep_pub", "gem", "gem_pub", "rap_softmax"),
    ]
    assert [name for name in OWN if name in in_order] == in_order
    assert MECHANISMS["aim"] is mechanism_class("aim")


@pytest.mark.parametrize("name", OWN)
def test_every_class_says_what_people_read_about_it(name: str) -> None:
    found = mechanism_class(name)

    assert is_dataclass(found)
    for attribute in Mechanism.__annotations__:
        assert hasattr(found, attribute), f"{found.__name__} states no {attribute}: see `Mechanism`"
    for attribute in ("title", "rank", "summary"):
        same = [
            one.name
            for one in MECHANISMS.values()
            if vars(one)[attribute] == vars(found)[attribute]
        ]
        assert same == [name], f"{' and '.join(same)} state one {attribute}"


def test_an_unknown_mechanism_is_refused_with_what_there_is() -> None:
    with pytest.raises(SpecificationError, match=r"one of jam_pgm, .* give synthesize"):
        make_mechanism("halves")
