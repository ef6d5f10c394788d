"""How many examples a property is tried on: the same few or many, or many more at random."""

from __future__ import annotations

from hypothesis import settings

FEW = "few"
"""The profile of `make test`: a quarter of the examples of `make test-all`, the same each time."""

QUICK = "repeatable"
"""The profile of `make test-all` and of pytest itself: everybody has the same examples."""

GATE = "gate"
"""The profile of `make gate`: random examples, twenty times as many."""

PER_TEST = 100
"""Examples of a test that states no number, in the quick profile."""

for name, number in ((FEW, PER_TEST // 4), (QUICK, PER_TEST)):
    settings.register_profile(
        name,
        # How long an example takes depends on what else the machine does.
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=number,
        print_blob=True,
    )
settings.register_profile(
    GATE, deadline=None, derandomize=False, max_examples=20 * PER_TEST, print_blob=True
)


def examples(quick: int) -> settings:
    """Return the settings of a test that has so many examples in the quick profile."""
    return settings(max_examples=max(1, quick * settings.default.max_examples // PER_TEST))
