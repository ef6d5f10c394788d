"""The identity of the ledger that pays for a release, in a file next to the release's definition.

A ledger is no part of a project's repository, and a clone of the project would begin one of its
own, with a whole budget for people who have spent theirs. The file is, and no run writes it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jam_dagster.common.shown_text import one_line
from jam_dagster.errors import BudgetError, InputError
from jam_dagster.privacy.ledger.commands import ledger_command

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.journal import Event
    from jam_dagster.privacy.ledger.reader import LedgerReader
    from jam_dagster.privacy.ledger.release_id import ReleaseId

LEDGER_ID = "ledger.id"

_HEAD = (
    "# The privacy ledger that pays for the release next to this file: commit both. Only the\n"
    "# privacy officer names another one, by `jam-dagster ledger adopt`.\n"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


def folder_of(definition: Path) -> Path:
    """Return the folder of a release's definition, in which the ledger is to be named.

    Raises
    ------
    InputError
        If there is none, or it cannot be written to.
    """
    file = definition / "defs.yaml" if definition.is_dir() else definition
    if not file.is_file():
        raise InputError(f"{file} is not there: name a release's defs.yaml, or its folder.")
    there = file.with_name(LEDGER_ID)
    if not os.access(there if there.exists() else file.parent, os.W_OK):
        raise InputError(f"{there} cannot be written: name a folder that you may write to.")
    return file.parent


def read_ledger_id(folder: Path) -> str:
    """Return the identity of the ledger that pays for the releases of a folder.

    It is empty if there is no file `LEDGER_ID`.

    Raises
    ------
    InputError
        If the file cannot be read, or holds no identity.
    """
    file = folder / LEDGER_ID
    if not os.path.lexists(file):
        return ""
    if not file.is_file():
        raise InputError(f"{file} cannot be read (it is no file): {_RESTORE}")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"{file} cannot be read ({reason}): {_RESTORE}") from None
    said = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(said) != 1 or not _DIGEST.fullmatch(said[0]):
        raise InputError(
            f"{file} holds no identity of a ledger, which is one line of 64 hexadecimal digits:"
            f" {_RESTORE}"
        )
    return said[0]


_RESTORE = (
    "restore it from the repository, or let the privacy officer write it (`jam-dagster ledger"
    " adopt`)."
)


def write_ledger_id(folder: Path, identity: str) -> Path:
    """Write the identity of a ledger next to a release's definition, and return the file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    file = folder / LEDGER_ID
    try:
        file.write_text(f"{_HEAD}{identity}\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}).") from None
    return file


def adopt_command(location: str, folder: str = "DEFS.YAML") -> str:
    """Return the command by which the officer names a ledger next to a release's definition."""
    return f"{ledger_command('adopt', location, reason='REASON')} {shlex.quote(folder)}"


def ledger_fault(ledger: LedgerReader, expected: str) -> str:
    """Return why a ledger is not the one that a release names; empty if it is, or none is named.

    Raises
    ------
    BudgetError
        If the ledger cannot be read.
    """
    if not expected:
        return ""
    found = ledger.identity
    if found == expected:
        return ""
    there = f"is another one ({found[:12]})" if found else "is not there, or empty"
    return (
        f"the release is paid from the ledger {expected[:12]}, which {LEDGER_ID} next to its"
        f" definition names, and the ledger {one_line(ledger.location)} {there}. Only the former"
        " knows which part of the budget is spent: fetch that ledger, or name its place. If it is"
        " gone for good, the privacy officer grants what may still be spent and adopts another:"
        f" `{adopt_command(ledger.location)}`"
    )


def check_ledger(ledger: LedgerReader, expected: str) -> None:
    """Raise unless a ledger is the one that a release names, if it names any.

    Raises
    ------
    BudgetError
        If it is another ledger, or a new one. Nothing is written.
    """
    if fault := ledger_fault(ledger, expected):
        raise BudgetError(f"{fault}. Nothing was opened and nothing charged")


def new_ledger_remark(
    journal: Sequence[Event],
    location: str,
    expected: str,
    dataset: str,
    but: ReleaseId | None = None,
) -> str:
    """Return that a ledger knows no release of a dataset, where nothing says it is the right one.

    It is empty if the release names its ledger, or the `journal` has reservations of the dataset,
    `but` those of one release.
    """
    reserved = (one for one in journal if one.kind == "reserved" and one.dataset == dataset)
    if expected or any(one.release_id != but for one in reserved):
        return ""
    return (
        f"The ledger {one_line(location)} is new to dataset {dataset!r}, whose whole budget counts"
        " as unspent. If its releases were charged elsewhere, name that ledger. If not, let"
        f" {LEDGER_ID} name this one, and commit it, so that a clone of the project is refused"
        f" another: `{adopt_command(location)}`."
    )
