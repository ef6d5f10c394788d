"""The command line: `jam-dagster`.

Results go to standard output, all else to standard error; with ``--json`` a result is one JSON
object. The exit status is 0; 2 for bad input, with one line that says what is wrong and how to mend
it; 3 where the privacy budget does not allow what was asked; 1 for anything else.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING

from jam_dagster.version import __version__

if TYPE_CHECKING:
    from jam_dagster.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; the entry point of the installed command."""
    if sys.argv[1:] == ["--version"]:
        # The modules of all commands take time, and a version needs none of them.
        sys.stdout.write(f"jam-dagster {__version__}\n")
        return
    # The processes of a benchmark must not import what is in the working directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Imports make many objects and no garbage, and a release little of it. It would be looked for
    # again and again, and once more at the end, where all goes with the process.
    gc.set_threshold(10_000)
    try:
        from jam_dagster.cli.commands import app

        app()
    finally:
        gc.freeze()


def __getattr__(name: str) -> object:
    if name == "app":
        from jam_dagster.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
