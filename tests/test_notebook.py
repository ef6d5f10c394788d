"""How objects show themselves: tidy HTML, everything escaped, no value of a private table."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from jam_dagster.common.notebook import card
from jam_dagster.mechanisms import JamPgm
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.privacy import Budget, Draws, Ledger, MemoryStore, UnledgeredAccount, make_noise
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    Workload,
)

HOSTILE = "<script>alert('x')</script>&\"quoted\""
DOMAIN = Domain(
    (
        CategoricalAttribute("town", ("Aix", HOSTILE)),
        CategoricalAttribute(HOSTILE, ("a", "b", "c"), nullable=True),
        NumericAttribute("age", (0.0, 15.0, 100.0), integer=True),
    )
)
VOID = {"br", "hr", "img"}


class Tidy(HTMLParser):
    """Reads HTML whose tags must all be closed in order, and keeps what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]
        assert {name for name, _ in attrs} <= {"style", "scope"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def run() -> tuple[FittedModel, Transcript]:
    rng = np.random.default_rng(1)
    tables = [
        EncodedTable(DOMAIN, tuple(rng.integers(0, size, rows) for size in DOMAIN.shape))
        for rows in (300, 100)
    ]
    rho = Budget(1.0, 1e-9).rho
    draws = Draws(make_noise("numpy", 1), UnledgeredAccount(rho), MemoryStore())
    workload = Workload.all_k_way(DOMAIN, 2)
    result = JamPgm(rounds=2, iterations=5).run(tables[0], tables[1], workload, draws)
    return result.model, result.transcript


def shown(tmp_path_factory: pytest.TempPathFactory, run: tuple[FittedModel, Transcript]):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")
    balance = ledger.grant("people & <others>", epsilon=1.0, delta=1e-9)
    return {
        "domain": DOMAIN,
        "workload": Workload.all_k_way(DOMAIN, 2),
        "budget": Budget(1.0, 1e-9),
        "balance": balance,
        "model": run[0],
        "transcript": run[1],
    }


@pytest.fixture(scope="module")
def objects(tmp_path_factory, run):
    return shown(tmp_path_factory, run)


@pytest.mark.parametrize("name", ["domain", "workload", "budget", "balance", "model", "transcript"])
def test_html_is_tidy_escaped_and_without_colours_of_its_own(objects, name) -> None:
    text = objects[name]._repr_html_()
    page = Tidy(text)
    assert not {"script", "style", "link", "img", "iframe"} & set(page.tags)
    # A colour that is fixed is unreadable in half of all notebooks; currentColor is not fixed.
    styles = ";".join(page.styles)
    assert not re.search(r"#[0-9a-f]{3}|rgb[(]|(?<!current)\b(white|black|gr[ae]y)\b", styles)
    assert "http" not in text
    # Without a doctype, tables do not take the notebook's colour by themselves.
    assert all("color:inherit" in style for style in page.styles if "border-collapse" in style)
    assert re.sub(r"\s", "", "".join(page.texts))


def test_what_is_said_is_what_is_there(objects, run) -> None:
    domain = " ".join(Tidy(objects["domain"]._repr_html_()).texts)
    assert HOSTILE in domain
    assert "integer from 0 to 100 in 2 bins" in domain
    transcript = " ".join(Tidy(objects["transcript"]._repr_html_()).texts)
    # Seeded noise is not for release, and the card says so.
    assert "not releasable" in transcript
    assert " x ".join(run[1].rounds[0].clique) in transcript
    assert "0.014973" in " ".join(Tidy(objects["budget"]._repr_html_()).texts)
    balance = Tidy(objects["balance"]._repr_html_()).texts
    assert "people & <others>" in balance
    assert "epsilon" in balance
    assert "3" in Tidy(objects["workload"]._repr_html_()).texts


def test_a_domain_from_private_data_says_so_and_its_repr_tells_no_value() -> None:
    restricted = Domain((CategoricalAttribute("town", ("Secretville",)),), (), "private")
    texts = Tidy(restricted._repr_html_()).texts
    assert "restricted: from private data" in texts
    # In a notebook it is in the user's own hands; a log line or an exception is in many.
    assert "Secretville" not in repr(restricted)
    assert "Secretville" not in repr(FittedModel.uniform(restricted, 10.0))
    assert "restricted" not in " ".join(Tidy(DOMAIN._repr_html_()).texts)


def test_the_repr_of_an_encoded_table_tells_its_shape_only() -> None:
    codes = tuple(np.full(7, size - 1) for size in DOMAIN.shape)
    assert repr(EncodedTable(DOMAIN, codes)) == "EncodedTable(7 records, 3 attributes)"


def test_reprs_are_one_line(objects) -> None:
    assert repr(objects["domain"]) == f"Domain(town: 2, {HOSTILE}: 4, age: 2; declared)"
    assert repr(objects["workload"]) == "Workload(3 marginals of 3 attributes)"
    assert repr(objects["transcript"]).startswith("Transcript(jam_pgm, ")
    assert repr(objects["model"]).startswith("FittedModel(")


def test_long_tables_are_cut() -> None:
    page = Tidy(card("many", {}, columns=("n",), rows=((place,) for place in range(1000))))
    assert page.tags.count("tr") == 101
    assert page.texts[-1] == "and more"
    whole = Tidy(card("few", {}, columns=("n",), rows=[(1,)] * 100))
    assert "and more" not in whole.texts
