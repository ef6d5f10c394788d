"""The bundle of a page's script is made once an installation."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

import pytest
import vl_convert

from jam_dagster.reports import live_charts
from jam_dagster.reports.live_charts import page_script


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the bundle, in an installation that keeps none yet."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return Path(cache_from_source(live_charts.__file__)).with_name("vega_embed.js")


def script() -> str:
    """Return the script as another process makes it."""
    return page_script.__wrapped__()


def keep(path: Path, content: str, of: str = version("vl-convert-python")) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    of += f", SHA-256 {sha256(content.encode()).hexdigest()}"
    path.write_text(f"// window.vegaEmbed = vegaEmbed; // vl-convert {of}\n{content}")


def test_a_kept_bundle_is_read(kept: Path) -> None:
    keep(kept, "kept();\nanother();")
    assert script().startswith("(() => {kept();\nanother();})();\n")


@pytest.mark.slow
def test_it_is_kept_as_it_is_made(kept: Path) -> None:
    made = script()
    header, content = kept.read_text().split("\n", 1)
    assert content == vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    assert made.startswith(f"(() => {{{content}}})();")
    assert script() == made
    assert [kept] == [*kept.parent.iterdir()]
    # One of another version and one that was cut short are made again.
    keep(kept, content, of="1.0")
    assert script() == made
    assert kept.read_text() == f"{header}\n{content}"
    kept.write_text(f"{header}\n{content[:1000]}")
    assert script() == made
    assert kept.read_text() == f"{header}\n{content}"


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_an_installation_that_keeps_nothing_makes_it(
    kept: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    if wanted:
        # What would be the folder is a file: who may do everything cannot write there either.
        kept.parent.parent.mkdir(parents=True)
        kept.parent.write_text("")
    else:
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert "vegaEmbed" in script()
    assert not kept.exists()
