"""What all pages share: colours that can be read, a policy that lets nothing be fetched."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from jam_dagster.common.html_pages import content_policy, environment
from jam_dagster.reports.live_charts import data_block, page_script
from tests.reports.test_plots import contrast

STYLE = (files("jam_dagster.common") / "templates" / "page.css").read_text()


def colours(ground: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if ground == "light" else dark))


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_text_can_be_read(ground: str) -> None:
    colour = colours(ground)
    for text in ("ink", "muted", "accent", "good", "warn", "bad"):
        for under in ("ground", "panel"):
            assert contrast(colour[text], colour[under]) >= 4.5, (text, under)
    for kind in ("warn", "bad"):
        for text in ("ink", kind):
            assert contrast(colour[text], colour[f"{kind}-ground"]) >= 4.5


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_neighbours_in_the_bar_of_the_budget_can_be_told_apart(ground: str) -> None:
    colour = colours(ground)
    assert contrast(colour["selection"], colour["measurement"]) >= 2
    for kind in ("selection", "measurement", "evaluation", "lost"):
        assert contrast(colour[kind], colour["ground"]) >= 1.8


def test_a_page_without_scripts_lets_none_run() -> None:
    page = environment().get_template("base.html").render()
    assert "<script" not in page
    assert "script-src" not in content_policy("")
    assert content_policy("") in page.replace("&#39;", "'")


@pytest.mark.slow
def test_the_script_can_stand_in_a_page() -> None:
    script = page_script("compare.js", "sorting.js")
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "\r" not in script
    assert script == page_script("compare.js", "sorting.js")


def test_data_ends_no_script() -> None:
    block = str(data_block({"a": "</script><script>alert(1)</script>&amp;"}, "spec"))
    assert block.count("<") == 2
    assert "\\u003c/script\\u003e" in block
