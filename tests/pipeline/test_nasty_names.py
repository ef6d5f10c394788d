"""A release of nasty names in Dagster: what the UI reads as Markdown shows them, and no more."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from jam_dagster.common.shown_text import one_line
from jam_dagster.release import EvaluationSpec, MechanismSpec
from jam_dagster.tables import source_from_config
from tests.nasty import NASTY, nasty_domain, nasty_table, raw_in
from tests.pipeline.conftest import Bench, failure
from tests.pipeline.test_markdown import CONSTRUCTS, READER

pytestmark = pytest.mark.slow

# Texts of this package: it writes words in bold, and pictures as data.
OWN = {"strong_open"}


class Nasty(Bench):
    """The bench, on tables of nasty names."""

    def definitions(self, **changes: object) -> dg.Definitions:
        return super().definitions(
            private=source_from_config(str(self.home / "private.parquet")),
            public=source_from_config(str(self.home / "public.parquet")),
            domain=nasty_domain(),
            mechanism=MechanismSpec("jam_pgm", rounds=3, iterations=20),
            evaluation=EvaluationSpec(mode="private"),
            **changes,
        )


def markdown_shown(bench: Bench, result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, str]]:
    """Yield everything of a run that Dagster's UI reads as Markdown, and where it stands."""
    graph = bench.definitions().resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        yield f"{key}", graph.get(key).description or ""
    for check in graph.asset_check_keys:
        yield f"{check.name}", graph.get(check).description or ""
    shown = [
        (event.asset_key.path[-1], event.materialization)
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    ]
    checked = [(one.check_name, one) for one in result.get_asset_check_evaluations()]
    for name, event in (*shown, *checked):
        yield name, event.description or ""
        for entry, value in event.metadata.items():
            where = f"{name}/{entry}"
            if isinstance(value, dg.MarkdownMetadataValue):
                yield where, value.md_str or ""
            if isinstance(value, dg.TableSchemaMetadataValue):
                for column in value.schema.columns:
                    yield where, column.description or ""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nasty")
    nasty_table(300, 0).to_parquet(folder / "private.parquet")
    nasty_table(200, 1).to_parquet(folder / "public.parquet")
    return folder


def test_the_ui_follows_no_name(home: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        bench = Nasty(home, instance)
        result = bench.run()
        assert result.success, failure(result)
        read = ""
        for where, markdown in markdown_shown(bench, result):
            tokens = READER.parse(markdown)
            inner = [child for token in tokens for child in token.children or ()]
            pictures = [child for child in inner if child.type == "image"]
            for picture in pictures:
                source = str(picture.attrs["src"])
                assert source.startswith("data:image/png;base64,"), where
                assert base64.b64decode(source.partition(",")[2]).startswith(b"\x89PNG")
            found = {token.type for token in (*tokens, *inner) if token not in pictures}
            assert found & CONSTRUCTS <= OWN, where
            read += " ".join(child.content for child in inner)
        for name in NASTY:
            assert one_line(name) in read

        # A line of the log is one, and steers no terminal.
        lines = [entry.user_message for entry in instance.all_logs(result.run_id)]
        rounds = [line for line in lines if line.startswith("round ")]
        assert len(rounds) == 3
        assert not any(re.search(r"[\n\x1b\u202e]", line) for line in rounds)
        # Each check names the page.
        checks = [
            one.metadata["page"].value
            for one in result.get_asset_check_evaluations()
            if "page" in one.metadata
        ]
        assert len(checks) == 5
        assert set(checks) == {str(bench.releases / "people" / "synthetic_records.checks.html")}

    pages = {path.name: path.read_text() for path in bench.releases.rglob("*.html")}
    assert set(pages) == {
        "release_report.html",
        "certificate.html",
        "synthetic_records.checks.html",
    }
    assert {name: raw_in(page) for name, page in pages.items()} == {name: set() for name in pages}
    assert "\\[" not in re.sub(r"<script.*?</script>", "", pages["release_report.html"], flags=re.S)
    (validations,) = bench.releases.rglob("synthetic_records.checks.json")
    suites = [one["suite_name"] for one in json.loads(validations.read_text())]
    assert suites[:3] == ["synthetic_records", "column_types", "impossible_combinations"]
    # The noise decides whether a marginal of the private table is measured at all.
    assert suites[3:] == ["measured_marginals", "domain_fits"][: len(suites[3:])]
