"""Names and values that a page, a terminal or Markdown could take for something else than text."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from jam_dagster.tables import CategoricalAttribute, Domain, ImpossibleCombination
from jam_dagster.tables.domain.text_dtype import text_dtype

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "</style></svg><svg onload=alert(3)>",
    "{{7*7}}{% raw %}",
    "[red]",
    "[/]",
    "[x](javascript:alert(4))",
    "![x](https://elsewhere.example/x.png)",
    "https://elsewhere.example/ www.elsewhere.example a@elsewhere.example",
    "]]>--><!--",
    "${HOME} $HOME %s {0}",
    "two\nlines",
    "\u202eturned\u200b",
    "`x`|*y*_z_ :smile:",
    "back\\slash'\"",
    "../../up",
    "\x1b]0;title\x07\x1b[31mred",
)
"""Each may be an attribute's name, and a value."""

RAW = (
    "<script>alert",
    "<img",
    "<svg onload",
    "</style></svg>",
    "\x1b",
    "\x07",
    "\u202e",
    "\u200b",
)
"""What no page of such names holds."""


def nasty_domain() -> Domain:
    """Return a domain of nasty names, each with a few nasty values."""
    return Domain(
        tuple(
            CategoricalAttribute(name, ("x", name, NASTY[(place + 1) % len(NASTY)]))
            for place, name in enumerate(NASTY)
        ),
        impossible=(ImpossibleCombination(NASTY[:2], ((1,), (1,))),),
    )


def nasty_table(rows: int, seed: int) -> pd.DataFrame:
    """Return a table over that domain."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (rows, len(NASTY)))
    # The combination that is impossible.
    codes[(codes[:, 0] == 1) & (codes[:, 1] == 1), 1] = 0
    return pd.DataFrame(
        {
            attribute.name: pd.array(
                np.array(attribute.labels)[codes[:, place]], dtype=text_dtype()
            )
            for place, attribute in enumerate(nasty_domain().attributes)
        }
    )


def raw_in(page: str) -> set[str]:
    """Return what stands raw in a page, outside the one script that is the package's own."""
    *before, own = re.split(r"<script>", page)
    after = own.split("</script>", 1)[1] if before else own
    return {raw for raw in RAW if any(raw in part for part in (*before, after))}
