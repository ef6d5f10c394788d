"""How many examples a property is tried on: few and always the same, or many and random."""

from __future__ import annotations

from hypothesis import settings

QUICK = "repeatable"
"""The profile of `make test` and `make test-all`: everybody has the same examples."""

GATE = "gate"
"""The profile of `make gate`: random examples, twenty times as many."""

PER_TEST = 100
"""Examples of a test that states no number, in the quick profile."""

settings.register_profile(
    QUICK,
    # How long an example takes depends on what else the machine does.
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=PER_TEST,
    print_blob=True,
)
settings.register_profile(
    GATE, deadline=None, derandomize=False, max_examples=20 * PER_TEST, print_blob=True
)


def examples(quick: int) -> settings:
    """Return the settings of a test that has so many examples in the quick profile."""
    return settings(max_examples=quick * settings.default.max_examples // PER_TEST)
