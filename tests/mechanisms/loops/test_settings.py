"""Settings say what they may be, and mechanisms are made from them by name."""

import dataclasses
from typing import Any

import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import (
    MECHANISMS,
    Aim,
    JamPgm,
    make_mechanism,
    mechanism_class,
)
from jam_dagster.mechanisms.loops.settings import settings_of


def test_the_default_is_the_papers() -> None:
    assert make_mechanism("jam_pgm") == JamPgm()
    assert make_mechanism("aim", rounds=40) == Aim(rounds=40)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_known_by_its_name(name: str) -> None:
    made = make_mechanism(name)
    assert made.name == name
    assert type(made) is mechanism_class(name)
    assert isinstance(made.samples, bool)
    settings = settings_of(type(made))
    assert set(settings) <= set(made.parameters())
    for one in settings.values():
        assert one.text
        assert one.accepts(one.default)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("oracle", {}, "must be one of jam_pgm, tilt, aim.*got 'oracle'"),
        ("aim", {"colour": 1}, "colour is no setting of aim; it has rounds, alpha"),
        (
            "aim",
            {"rounds": 1},
            "rounds must be a whole number, at least 2 and at most 100000, got 1",
        ),
        ("jam_pgm", {"rounds": True}, "rounds must be a whole number"),
        ("jam_pgm", {"rounds": None}, "rounds must be a whole number"),
        ("jam_pgm", {"rounds": 2.0}, "rounds must be a whole number"),
        ("jam_pgm", {"alpha": 1}, "alpha must be a number, above 0 and below 1, got 1"),
        ("jam_pgm", {"alpha": float("nan")}, "alpha must be a number"),
        ("jam_pgm", {"size_limit_mb": float("inf")}, "size_limit_mb must be a number, above 0"),
        ("jam_pgm", {"estimator": "newton"}, "estimator must be one of accelerated, mbi"),
        ("privmrf", {"t": 1e308}, "t must be a number, at least 0 and at most 100000"),
        ("jam_pgm", {"tolerance": "0.1"}, "tolerance must be a number, at least 0 and below 1"),
    ],
)
def test_what_is_wrong_is_named(name: str, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecificationError, match=expected):
        make_mechanism(name, **settings)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        JamPgm().rounds = 3  # type: ignore[misc]
