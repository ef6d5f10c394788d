"""How pages are rendered: one look, one way to write numbers, and no network."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from jam_dagster.common import palette
from jam_dagster.common.shown_text import visible

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str = "jam_dagster.common") -> Environment:
    """Return the templates of a package, and with them those that all pages share.

    What a template is given is escaped, and unseen characters in it are shown. Importing jinja2
    takes a moment, which those who only name a page do not need.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, "jam_dagster.common"))
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figures"] = figures
    made.globals |= {"content_policy": content_policy, "palette": palette.ALL, "script": ""}
    return made


def _seen(value: object) -> object:
    """Show what is unseen in a text; what is markup already was made by this package."""
    return visible(value) if type(value) is str else value


def script_text(name: str) -> str:
    """Return a script among the templates, such as ``"sorting.js"``."""
    return (files("jam_dagster.common") / "templates" / name).read_text()


def figures(number: float, digits: int = 4) -> str:
    """Format a number with so many significant digits, as people write it: 1e-9, not 1e-09."""
    return re.sub(r"e([+-])0*", r"e\1", f"{number:.{digits}g}").replace("e+", "e")


def content_policy(script: str) -> str:
    """Return the Content-Security-Policy of a page that runs one script, or none.

    Nothing is fetched, whatever the page holds, and no other script runs: the browser knows this
    one by its SHA-256.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    if not script:
        return policy
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{policy}; script-src 'sha256-{digest}'"
