"""A whole release of nasty names from the command line: no page or terminal obeys any of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from rich.text import Text

from jam_dagster.cli.console import echo, stderr
from jam_dagster.tables import Domain
from tests.cli_bench import run_cli
from tests.nasty import NASTY, nasty_domain, nasty_table, raw_in

DATASET = "<b>[red]{{1}} :smile:"


@dataclass(frozen=True)
class Made:
    """The folder of a release, and what each command printed."""

    folder: Path
    printed: dict[str, str]


def make_nasty_release(folder: Path) -> Made:
    """Release, plan, verify and draft from the command line."""
    tables = ("--domain", "domain.yaml", "--public", "public.parquet")
    settings = (*tables, "--epsilon", "1", "--degree", "2")
    settings += ("--mechanism", "jam_pgm", "--setting", "rounds=4", "--setting", "iterations=20")
    budget = ("--ledger", "ledger.db", "--dataset", DATASET)
    printed = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        nasty_domain().save(Path("domain.yaml"))
        nasty_table(300, 0).to_parquet("private.parquet")
        nasty_table(200, 1).to_parquet("public.parquet")
        private = ("--private", "private.parquet", "--evaluation-mode", "private", "--out", "out")
        granted = ("--epsilon", "3", "--delta", "1e-9", "--records", "public", "--reason", "[/]")
        trials = ("--records", "300", "--seeds", "1", "--epsilons", "1", "--plot", "plan.html")
        for command in (
            ("ledger", "grant", *budget, *granted),
            ("synthesize", *settings, *budget, *private),
            ("plan", *settings, *trials),
            ("ledger", "show", "--ledger", "ledger.db", "--last", "200"),
            ("certificate", "verify", "out", "--ledger", "ledger.db"),
            ("certificate", "dossier", "out", "--out", "dossier.html"),
            ("domain", "draft", "--public", "public.parquet", "--out", "drafted.yaml"),
        ):
            made = run_cli(*command)
            assert made.exit_code == 0, made.output
            printed[" ".join(command[:2])] = made.output
    return Made(folder, printed)


@pytest.mark.slow
@pytest.mark.xdist_group("nasty_pages")
def test_no_page_holds_a_name_raw(nasty: Made) -> None:
    pages = sorted(nasty.folder.rglob("*.html"))
    assert [page.name for page in pages] == [
        "dossier.html",
        "certificate.html",
        "checks.html",
        "report.html",
        "plan.html",
    ]
    assert {page.name: raw_in(page.read_text()) for page in pages} == {
        page.name: set() for page in pages
    }


@pytest.mark.slow
@pytest.mark.xdist_group("nasty_pages")
def test_no_terminal_is_steered_and_no_line_is_forged(nasty: Made) -> None:
    for printed in nasty.printed.values():
        assert not any(ord(one) < 32 and one != "\n" for one in printed)
        assert "\u202e" not in printed
    lines = [line for line in nasty.printed["synthesize --domain"].splitlines() if " x " in line]
    # A note of the verdict names marginals too, and is indented below it.
    assert all(line.startswith(("round ", " " * 20)) for line in lines)
    assert any(line.startswith("round ") for line in lines)
    assert "[/]" in nasty.printed["ledger show"]
    assert ":smile:" in nasty.printed["ledger show"].replace("\n", "")


@pytest.mark.slow
@pytest.mark.xdist_group("nasty_pages")
def test_names_come_through_whole(nasty: Made) -> None:
    table = pd.read_csv(nasty.folder / "out" / "synthetic.csv", dtype=str, keep_default_na=False)
    assert tuple(table.columns) == NASTY
    assert set(table[NASTY[0]]) <= {"x", NASTY[0], NASTY[1]}
    assert Domain.load(nasty.folder / "out" / "domain.yaml").digest == nasty_domain().digest
    assert set(Domain.load(nasty.folder / "drafted.yaml").names) == set(NASTY)
    # No name makes a file, here or elsewhere.
    assert not any((folder / "up").exists() for folder in (nasty.folder, *nasty.folder.parents))
    for path in nasty.folder.rglob("*"):
        assert not any(name in path.name for name in ("alert", "elsewhere", "HOME"))


@pytest.mark.parametrize("name", NASTY)
def test_a_console_prints_a_name_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    stderr().print(name, soft_wrap=True)
    echo(name, err=True)
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    shown = printed.splitlines()[-1]
    assert shown == name.encode("unicode_escape").decode().replace("\\\\", "\\")
    assert "\n".join(printed.splitlines()[:-1]) == shown.replace("\\n", "\n")


def test_a_text_with_a_style_of_its_own_keeps_it() -> None:
    # Progress bars and tables are made of such texts.
    with stderr().capture() as captured:
        stderr().print(Text("x", style="bold"))
    assert captured.get() in ("", "x\n")
