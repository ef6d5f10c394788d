"""The rendering of pages: a common style, one format of numbers, and no network."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jam_dagster.common import palette
from jam_dagster.common.shown_text import seen

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(package: str = "jam_dagster.common") -> Environment:
    """Return the templates of a package, with those that all pages share.

    Values are escaped, and their invisible characters are shown. jinja2 is slow to import, so only
    rendering imports it. Templates are compiled once a process.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, "jam_dagster.common"))
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figures"] = figures
    made.globals |= {"content_policy": content_policy, "palette": palette.ALL, "script": ""}
    return made


def script_text(name: str) -> str:
    """Return a script among the templates, such as ``"sorting.js"``."""
    return (files("jam_dagster.common") / "templates" / name).read_text(encoding="utf-8")


def figures(number: float, digits: int = 4) -> str:
    """Format a number with some significant digits in the usual form: 1e-9, not 1e-09."""
    return re.sub(r"e([+-])0*", r"e\1", f"{number:.{digits}g}").replace("e+", "e")


def content_policy(script: str) -> str:
    """Return the Content-Security-Policy of a page that runs one script, or none.

    The page fetches nothing, and no other script runs: the policy has the script's SHA-256.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    if not script:
        return policy
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{policy}; script-src 'sha256-{digest}'"
