"""`jam-dagster private`: private copies in the stores, and their removal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jam_dagster.cli.console import echo, group, print_json, tell
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy.private_copies import Judged

app = group("Which private copies are in the stores, and their removal.")

PrivateOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ROOT", help="The root of a private store of Dagster: a folder or a URL."),
]
OutOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="The folder of a release that `synthesize` made."),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="JAM_LEDGER",
        help="The ledger that the releases are charged to: it knows which have ended.",
    ),
]


@app.command("list")
def list_copies(
    private: PrivateOption = None,
    out: OutOption = None,
    ledger: LedgerOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with all files.")
    ] = False,
) -> None:
    r"""List every file that only those may see who may see the private table.

    ```
    jam-dagster private list --private secure/private --ledger ledger.db
    jam-dagster private list --out release --ledger ledger.db
    ```

    With the ledger the list says which belong to a release that has not ended, and when the others
    are due.
    """
    found = _judged(private, out, ledger)
    if as_json:
        print_json({"files": [one.to_dict() for one in found]})
        return
    for one in found:
        echo(_line(one))
    size = sum(one.copy.size for one in found)
    tell(f"{len(found)} files, {_size_text(size)}.")


@app.command()
def remove(
    private: PrivateOption = None,
    out: OutOption = None,
    ledger: LedgerOption = None,
    due: Annotated[
        bool, typer.Option("--due", help="Only what has been kept for 30 days.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without this, only show what would go.")
    ] = False,
) -> None:
    r"""Remove private copies that no release needs any more.

    ```
    jam-dagster private remove --private secure/private --ledger ledger.db --due --yes
    ```

    The command removes exact statistics of releases that have ended in the ledger, and files that
    say why a table could not be opened. What a release needs to resume stays, and so does every
    file that is not known. A release that is made again reads the private table again and is free.
    Backups and snapshots of the disk are not reached from here.
    """
    from jam_dagster.privacy.private_copies import remove as remove_copy

    now = datetime.now(UTC)
    chosen: list[Judged] = []
    for one in _judged(private, out, ledger):
        if one.is_due(now) if due else not one.kept_because:
            chosen.append(one)
        elif one.kept_because and one.copy.kind != "other":
            tell(f"Kept: {one.copy.path}: {one.kept_because}.")
    removed = 0
    for one in chosen:
        if not yes:
            echo(_line(one))
        elif remove_copy(one):
            removed += 1
            echo(str(one.copy.path))
        else:
            tell(f"Kept: {one.copy.path} was written meanwhile.")
    if yes:
        tell(f"{removed} files removed.")
    elif chosen:
        tell(f"{len(chosen)} files would go; give --yes to remove them.")
    else:
        tell("Nothing is to go.")


def _judged(private: list[str] | None, out: list[Path] | None, ledger: str | None) -> list[Judged]:
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.private_copies import copies_in_folder, copies_in_store, judged

    if not private and not out:
        raise InputError("Say where to look: --private ROOT, or --out DIR.")
    copies = [one for root in private or () for one in copies_in_store(_root(root))]
    copies += [one for folder in out or () for one in copies_in_folder(folder)]
    return judged(copies, None if ledger is None else Ledger(ledger), datetime.now(UTC))


def _root(text: str) -> Path | UPath:
    if "://" not in text:
        return Path(text)
    from upath import UPath

    root = UPath(text)
    return Path(root.path) if root.protocol in ("", "file", "local") else root


def _line(one: Judged) -> str:
    copy = one.copy
    release = ""
    if copy.release:
        partition = f" [{copy.partition}]" if copy.partition else ""
        edition = f", edition {copy.edition}" if copy.edition else ""
        release = f"{copy.release}{partition}{edition}"
    when = f"due at {one.due:%Y-%m-%d %H:%M} UTC" if one.due else f"kept: {one.kept_because}"
    parts = [copy.kind, release, _size_text(copy.size), f"{copy.written:%Y-%m-%d %H:%M}", when]
    return "  ".join([str(copy.path), *(part for part in parts if part)])


def _size_text(size: int) -> str:
    return f"{size / 2**20:,.1f} MB" if size >= 2**20 else f"{size:,} bytes"
