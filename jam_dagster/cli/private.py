"""`jam-dagster private`: private copies in the stores, and their removal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jam_dagster.cli.console import echo, group, print_json, tell
from jam_dagster.cli.options import AsJson
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy.private_copies import PrivateCopy

app = group("Which private copies are in the stores, and their removal.")

PrivateOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ROOT", help="The root of a private store of Dagster: a folder or a URL."),
]
OutOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="The folder of a release that `synthesize` made."),
]


@app.command("list")
def list_copies(
    private: PrivateOption = None,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    r"""List every file that only those may see who may see the private table.

    ```
    jam-dagster private list --private secure/private
    jam-dagster private list --out release
    ```
    """
    found = _copies(private, out)
    if as_json:
        print_json({"files": [one.to_dict() for one in found]})
        return
    for one in found:
        echo(_line(one))
    tell(f"{len(found)} files, {_size_text(sum(one.size for one in found))}.")


@app.command()
def remove(
    private: PrivateOption = None,
    out: OutOption = None,
    due: Annotated[
        bool, typer.Option("--due", help="Only what was written 30 or more days ago.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without this, only show what would go.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    r"""Remove private copies, which no release needs.

    ```
    jam-dagster private remove --private secure/private --due --yes
    ```

    The command removes exact statistics, and files that say why a table could not be opened. Files
    that a release needs to resume stay, and so does every unknown file. A release that is repeated
    reads the private table again, and its draws are free. Backups and snapshots of the disk
    are not reached from here.
    """
    from jam_dagster.privacy.private_copies import remove as remove_copy

    now = datetime.now(UTC)
    chosen = [one for one in _copies(private, out) if one.is_removable(now, due=due)]
    listed = []
    for one in chosen:
        if yes and not remove_copy(one):
            tell(f"Kept: {one.path} was written meanwhile.")
            continue
        listed.append(one)
        if not as_json:
            echo(str(one.path) if yes else _line(one))
    if as_json:
        print_json({"removed": yes, "files": [one.to_dict() for one in listed]})
    elif yes:
        tell(f"{len(listed)} files removed.")
    elif chosen:
        tell(f"{len(chosen)} files would go; give --yes to remove them.")
    else:
        tell("Nothing is to go.")


def _copies(private: list[str] | None, out: list[Path] | None) -> list[PrivateCopy]:
    from jam_dagster.privacy.private_copies import copies_in_folder, copies_in_store

    if not private and not out:
        raise InputError("Say where to look: --private ROOT, or --out DIR.")
    found = [one for root in private or () for one in copies_in_store(_root(root))]
    return found + [one for folder in out or () for one in copies_in_folder(folder)]


def _root(text: str) -> Path | UPath:
    if "://" not in text:
        return Path(text)
    from upath import UPath

    root = UPath(text)
    return Path(root.path) if root.protocol in ("", "file", "local") else root


def _line(one: PrivateCopy) -> str:
    partition, edition = one.release.get("partition"), one.release.get("edition")
    release = one.release.get("release", "")
    release += f" [{partition}]" if partition else ""
    release += f", edition {edition}" if edition else ""
    when = f"due at {one.due:%Y-%m-%d %H:%M} UTC" if one.due else "kept: not a private copy"
    parts = [one.kind, release, _size_text(one.size), f"{one.written:%Y-%m-%d %H:%M}", when]
    return "  ".join([str(one.path), *(part for part in parts if part)])


def _size_text(size: int) -> str:
    return f"{size / 2**20:,.1f} MB" if size >= 2**20 else f"{size:,} bytes"
