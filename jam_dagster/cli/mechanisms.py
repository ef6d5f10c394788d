"""`jam-dagster mechanisms`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from jam_dagster.cli.console import print_json
from jam_dagster.cli.options import AsJson

_PUBLIC = {
    "must": "learns from a public table",
    "may": "learns from a public table, or begins uniform without one",
    "cannot": "does not learn from a public table",
}


def mechanisms(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One of them; all if not given.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the mechanisms, and the settings of each with their defaults.

    ```
    jam-dagster mechanisms aim
    ```

    They are chosen by `--mechanism NAME`, or in a release's file by `mechanism: NAME`; settings
    are given by `--setting KEY=VALUE`, or below `mechanism`.
    """
    from jam_dagster.mechanisms import MECHANISMS, mechanism_class

    # An unknown one is refused with those that there are.
    names = [name] if name is not None and mechanism_class(name) else list(MECHANISMS)
    described = {one: _described(one) for one in names}
    if as_json:
        print_json(described)
        return
    for one, mechanism in described.items():
        typer.echo(f"{one}: {mechanism['text']}")
        public = _PUBLIC[mechanism["takes_public"]]
        table = "" if mechanism["samples"] else "; answers marginals, and makes no synthetic table"
        typer.echo(f"  {public}{table}")
        if "recommended" in mechanism:
            typer.echo(f"  recommended {mechanism['recommended']}")
        for key, setting in mechanism["settings"].items():
            default = setting["default"]
            shown = "follows from the domain" if default is None else default
            typer.echo(f"  {key} ({shown}): {setting['text']}; {setting['allowed']}")


def _described(name: str) -> dict[str, Any]:
    from jam_dagster.common.choices import RECOMMENDED, RECOMMENDED_WHERE
    from jam_dagster.mechanisms import make_mechanism
    from jam_dagster.mechanisms.loops.settings import settings_of

    mechanism = make_mechanism(name)
    made = type(mechanism)
    settings = settings_of(made).items()
    return {
        # The first line of its module's docstring.
        "text": (sys.modules[made.__module__].__doc__ or "").split("\n")[0],
        "takes_public": mechanism.takes_public,
        "samples": mechanism.samples,
        **({"recommended": RECOMMENDED_WHERE} if name == RECOMMENDED else {}),
        "settings": {
            key: {"default": one.default, "text": one.text, "allowed": one.allowed}
            for key, one in settings
        },
    }
