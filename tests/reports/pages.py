"""A page as a reader sees it, and what pages of reports are made of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from jam_dagster.evaluation import (
    ExpectationResult,
    verdict_of,
)
from jam_dagster.reports.release_report import ReportFacts, render_report
from tests.evaluation.conftest import SmallRelease

FACTS = ReportFacts(
    release="people",
    dataset="census",
    epsilon=1.0,
    delta=1e-9,
    reserved={"mechanism": 0.05, "evaluation": 0.002},
    partition="2026-01",
    made=datetime(2026, 2, 3, 4, 5, tzinfo=UTC),
    public_source="an older census",
)


CHECKS = [
    ExpectationResult("columns", True, "ERROR", "5 columns, in order"),
    ExpectationResult("age__marginal", False, "WARN", "1 of 5 cells beyond the tolerance"),
    ExpectationResult("age__bounds", False, "ERROR", "2 rows (0.05%) out of bounds"),
]


class Page(HTMLParser):
    """Collects what a test asks of a page, and that tags are closed in order."""

    VOID = {"meta", "br", "rect", "path", "circle", "line"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append((self.tags[-1][1].get("type"), data))
        elif "style" not in self.open:
            self.text.append(data)

    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


def assert_alone(html: str) -> None:
    """Raise unless a page needs nothing but itself, and its policy lets one script run."""
    page = Page(html)
    names = {name for name, _ in page.tags}
    assert names.isdisjoint({"link", "img", "iframe", "object", "base", "form"})
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "action", "srcset"):
                assert (value or "").startswith("#")
    (script,) = [text for kind, text in page.scripts if kind is None]
    assert all(json.loads(text) for kind, text in page.scripts if kind == "application/json")
    own = html.replace(script, "")
    assert not re.search(r"@import|url\(", own)
    addresses = set(re.findall(r"https?://[^\"' )]+", own))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    policy = str(next(a for a in page.all("meta") if a.get("http-equiv"))["content"])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        f"script-src 'sha256-{digest}'",
    ]
    ids = [str(attributes["id"]) for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for a in page.all("a")} == set(ids)


def render(release: SmallRelease, **options: Any) -> str:
    options.setdefault(
        "verdict", verdict_of(options.get("error"), checks=options.get("checks", ()))
    )
    return render_report(
        options.pop("facts", FACTS),
        transcript=options.pop("transcript", release.transcript),
        synthetic=release.synthetic,
        public=options.pop("public", release.public),
        **options,
    )
