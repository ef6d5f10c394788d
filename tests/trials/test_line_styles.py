"""Lines are told apart: by everybody, on light and on dark pages."""

from __future__ import annotations

import itertools

import pytest

from jam_dagster.common import palette
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.trials.charts import Line, line_styles

PLAIN = [(title_of(name), name) for name in MECHANISMS]
# Grounds of pages: jam_dagster/common/templates/page.css.
GROUNDS = ("#ffffff", "#14181d")


def looks(*more: tuple[str, str]) -> dict[str, Line]:
    return {one.title: one for one in line_styles([*PLAIN, *more])}


def linear(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_mechanism_has_a_look_of_its_own() -> None:
    held = looks()

    for one, other in itertools.combinations(held.values(), 2):
        # Told apart without colours, and by them.
        assert (one.shape, one.public) != (other.shape, other.public), (one, other)
        assert one.colour != other.colour
    assert {one.title for one in held.values() if one.public} == {
        "JAM-PGM",
        "PMW^Pub",
        "PEP^Pub",
        "GEM^Pub",
        "TILT",
        "Public prior",
    }


def test_labels_look_like_no_other_line() -> None:
    names = [*MECHANISMS, "of_another_version"]
    more = [(f"{name} {number}", name) for name in names for number in range(12)]

    held = looks(*more)

    assert len({(one.colour, one.shape, one.public) for one in held.values()}) == len(held)
    # What mechanisms styles like under their own names stays, and their labels have their colours.
    assert {title: held[title] for title, _ in PLAIN} == looks()
    assert held["aim 0"].colour == held["AIM"].colour


@pytest.mark.parametrize("ground", GROUNDS)
def test_colours_are_seen_on_both_grounds(ground: str) -> None:
    dark = {one.light: one.dark for one in palette.ALL} if ground != "#ffffff" else {}
    more = [(f"{number}", "of_another_version") for number in range(70)]

    for line in looks(*more).values():
        # The least that WCAG asks for of parts of pictures.
        assert contrast(dark.get(line.colour, line.colour), ground) >= 3, line


def test_tilt_without_public_data_is_drawn_as_what_learns_from_none() -> None:
    held = looks(("TILT without public data", "tilt"), ("small", "tilt"))
    assert [held[one].public for one in ("TILT", "small", "TILT without public data")] == [
        *(True, True, False)
    ]


def test_a_look_is_the_same_whoever_else_is_there() -> None:
    (alone,) = line_styles([("AIM", "aim")])

    assert alone == looks(("small", "aim"))["AIM"]
