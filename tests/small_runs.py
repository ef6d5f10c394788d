"""Settings under which every mechanism runs in seconds, for tests from end to end."""

from __future__ import annotations

from typing import Any

from jam_dagster.errors import DomainError
from jam_dagster.mechanisms import MECHANISMS, make_mechanism, mechanism_class
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.tables import Domain, Workload

SYNTHESIZING = [name for name in MECHANISMS if make_mechanism(name).samples]

_IMPOSSIBLE = Domain.from_dict(
    {
        "attributes": {"a": {"values": [0, 1]}, "b": {"values": [0, 1]}},
        "impossible": [{"a": [0], "b": [0]}],
    }
)


def _refuses_impossible(name: str) -> bool:
    try:
        make_mechanism(name).check(_IMPOSSIBLE, Workload.all_k_way(_IMPOSSIBLE, 2), 1.0)
    except DomainError:
        return True
    return False


# Mixtures of products cannot keep impossible combinations at zero, and refuse them.
REFUSING_IMPOSSIBLE = tuple(filter(_refuses_impossible, MECHANISMS))

# More than the attributes of any table here, each of which some mechanisms measure first.
QUICK: dict[str, Any] = {"rounds": 9, "iterations": 20, "pretraining_iterations": 20}


def small(name: str) -> dict[str, Any]:
    """Return settings of a mechanism for a small, quick run."""
    known = settings_of(mechanism_class(name))
    return {key: value for key, value in QUICK.items() if key in known}
