"""A check of a certificate, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jam_dagster.certificates.held import UNREADABLE
from jam_dagster.errors import JamError


@dataclass(frozen=True)
class Finding:
    """The finding of one check of a certificate.

    Parameters
    ----------
    name
        The subject of the check.
    passed
        Whether it holds.
    message
        The finding in words.
    checked
        Whether the check was made; a check that was skipped for lack of a file is no fault.
    """

    name: str
    passed: bool
    message: str
    checked: bool = True


def found_by(
    name: str, faults: Callable[[], Iterator[str]], sound: Callable[[], str] = lambda: "as stated"
) -> Finding:
    """Run one check; an unreadable file fails it."""
    try:
        wrong = list(faults())
        return Finding(name, not wrong, "; ".join(wrong) if wrong else sound())
    except JamError as error:
        return Finding(name, False, str(error))
    except UNREADABLE as error:
        return Finding(name, False, f"cannot be read ({type(error).__name__})")


def not_checked(name: str, why: str) -> Finding:
    """Return the finding of a check that was skipped, which is no fault."""
    return Finding(name, True, f"NOT CHECKED: {why}", checked=False)
