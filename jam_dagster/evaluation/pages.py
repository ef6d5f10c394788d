"""How pages are rendered: one look, one way to write numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str = "jam_dagster.evaluation") -> Environment:
    """Return the templates of a package, and with them those that all pages share.

    Importing jinja2 takes a moment, which those who only name a page do not need.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, "jam_dagster.evaluation"))
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figures"] = figures
    return made


def figures(number: float, digits: int = 4) -> str:
    """Format a number with so many significant digits, as people write it: 1e-9, not 1e-09."""
    return re.sub(r"e([+-])0*", r"e\1", f"{number:.{digits}g}").replace("e+", "e")
