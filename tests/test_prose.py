"""Plain English: ten patterns of clumsy prose, and the sentences that still match one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules import IN_ONE_WORKER, Module, parse_module, read_module

pytestmark = IN_ONE_WORKER

ROOT = Path(__file__).parents[1]
# One line is a file, a rule and a sentence.
EXCEPTIONS = Path(__file__).with_name("prose_exceptions.txt")
# Lines of the list. The number may only fall.
LONGEST = 1
PAGES = ["README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]

# A pattern is searched in one sentence at a time, without its final stop.
RULES = {
    "no headless 'what'": (
        r"^(# )?(What|Whatever|Whichever)\b.*[^?]$"
        r"|\b(than|except|but|besides) what\b|(?i:\bwho(so)?ever\b)"
    ),
    "'if', not 'where'": (
        r"^(# )?Where\b[^?]*,|\b([Nn]one|[Ee]mpty|[Nn]othing|zero|False|True) where\b"
    ),
    "'is' or 'is stored', not 'lies' or 'stands'": (
        r"(?i)\b(lies?|lay|lain|lying|stands?(?! for)|stood|standing)\b"
    ),
    "no sentence begins with 'Of'": r"^(# )?(Of|None of|As well as)\s",
    "'show' or 'report', not 'tell'": r"(?i)\b(tells?|told|telling)\b",
    "'is not a', not 'is none'": r"(?<!there )\b(is|are|was|were|be|am) none\b",
    "'continue' or 'repeat', not 'go on' or 'make again'": (
        r"(?i)\b(goes|go|going|went|gone) on\b|\bmade again\b"
    ),
    "a comment names its subject": (r"^# (It|They|As|Which|Those|Else|Also|The same|The latter)\s"),
    "'next to', not 'beside'": r"(?i)\bbesides?\b",
    "a verb first, not 'Let'": r"^(# )?Let (?!.* be\b)|\bhangs? (together|on|by|from)\b",
}


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of one paragraph without their final stop; code becomes a word."""
    text = re.sub(r"``?[^`]*``?", "CODE", " ".join(text.split()))
    for sentence in re.split(r"(?<=[.?!:;])\s+(?=[A-Z])", text):
        yield sentence.rstrip(".:;")


def _paragraphs(text: str) -> Iterator[str]:
    yield from re.split(r"\n\s*\n|\n\s*(?:[-*>]|\d+\.)\s|\n\s*-{3,}\n|\|", text)


def _of_module(module: Module) -> Iterator[str]:
    """Yield the sentences of docstrings, texts and comments of a Python module."""
    for text in module.texts:
        if " " in text:
            for paragraph in _paragraphs(text):
                yield from _sentences(paragraph)
    comments: list[str] = []
    last = (0, 0)
    for line, column, comment in module.comments:
        words = comment.lstrip("#: ")
        if comments and (line, column) == (last[0] + 1, last[1]):
            comments[-1] += f" {words}"
        else:
            comments.append(words)
        last = line, column
    for comment in comments:
        for number, sentence in enumerate(_sentences(comment)):
            yield sentence if number else f"# {sentence}"


def _of_page(text: str) -> Iterator[str]:
    text = re.sub(r"(?ms)^\s*```.*?^\s*```\s*$|<!--.*?-->|^#[^\n]*$", "\n\n", text)
    # Headings of tables are no sentences either.
    text = re.sub(r"(?m)^\|.*\n(?=\|[-:| ]+$)", "", text)
    for paragraph in _paragraphs(re.sub(r"\]\([^)]*\)", "", text)):
        yield from _sentences(paragraph.lstrip("#- ").replace("[", ""))


def _of_template(text: str) -> Iterator[str]:
    text = re.sub(
        r"(?s)<script.*?</script>|<style.*?</style>|<(?:h\d|th|dt)\b.*?</(?:h\d|th|dt)>|\{#.*?#\}|\{%.*?%\}",
        "\n\n",
        text,
    )
    for paragraph in _paragraphs(
        re.sub(
            r"</?(p|h\d|li|td|th|div|section)\b[^>]*>", "\n\n", re.sub(r"\{\{.*?\}\}", "CODE", text)
        )
    ):
        yield from _sentences(re.sub(r"<[^>]*>", "", paragraph))


def _of_text_template(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown file of the package, which may be a template."""
    yield from _of_page(re.sub(r"\{\{.*?\}\}", "CODE", re.sub(r"(?s)\{[#%].*?[#%]\}", "", text)))


def found() -> list[str]:
    """Return the sentences that match a rule, as lines of the list of exceptions."""
    rules = {rule: re.compile(pattern) for rule, pattern in RULES.items()}
    readers = [(path, _of_template) for path in sorted((ROOT / "jam_dagster").rglob("*.html"))]
    readers += [(path, _of_text_template) for path in sorted((ROOT / "jam_dagster").rglob("*.md"))]
    readers += [(ROOT / page, _of_page) for page in PAGES]
    readers += [(path, _of_page) for path in sorted((ROOT / "docs").rglob("*.md"))]
    lines = []
    of_files = [
        (path, _of_module(read_module(path)))
        for path in sorted((ROOT / "jam_dagster").rglob("*.py"))
    ]
    of_files += [(path, sentences(path.read_text(encoding="utf-8"))) for path, sentences in readers]
    for path, sentences in of_files:
        for sentence in sentences:
            for rule, pattern in rules.items():
                if pattern.search(sentence):
                    lines.append(f"{path.relative_to(ROOT).as_posix()} | {rule} | {sentence}")
    return lines


def test_prose_is_plain_english() -> None:
    listed = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    lines = found()
    new = sorted(set(lines) - set(listed))
    assert not new, "reword these sentences:\n" + "\n".join(new)
    gone = sorted(set(listed) - set(lines))
    assert not gone, f"remove from {EXCEPTIONS.name}, they match no more:\n" + "\n".join(gone)
    assert len(listed) == LONGEST, f"set LONGEST to {len(listed)}: the list may only shrink"


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (0, "What was drawn is kept", "What is kept?"),
        (0, "Whoever may read it", "Everyone who may read it, and what it says"),
        (1, "Where none is given, it is drawn", "Files are where the ledger is"),
        (1, "The key, None where there is none", "The key, None if there is none"),
        (2, "The files lie in a folder", "NULL stands for a missing value"),
        (3, "Of a batch of counts", "Largest number of rows in a batch"),
        (4, "It cannot be told apart", "It cannot be distinguished"),
        (5, "A text that is none", "The number of files, if there is none"),
        (6, "The run goes on as it began", "The run continues, and so on"),
        (7, "# As the verifier does it", "# The verifier does the same"),
        (8, "The page is beside the table", "The page is next to the table"),
        (9, "Let Dagster say nothing", "Let n be the number of records"),
    ],
)
def test_each_rule_finds_its_fault_and_nothing_else(rule: int, bad: str, good: str) -> None:
    pattern = list(RULES.values())[rule]
    assert re.search(pattern, bad)
    assert not any(re.search(other, good) for other in RULES.values())


def test_sentences_are_found_wherever_people_read_them() -> None:
    module = (
        '"""First. Second `x\ny` one."""\n# A comment that\n# goes on.\n'
        'raise ValueError(f"no {x} here: "\n    "Try again")\n'
    )
    assert list(_of_module(parse_module(module))) == [
        "First",
        "Second CODE one",
        "no CODE here",
        "Try again",
        "# A comment that goes on",
    ]
    page = "# Title\n\nOne\nsentence.\n\n```sh\nnot this\n```\n\n| a cell | two |\n"
    assert [s for s in _of_page(page) if s.strip()] == ["One sentence", "a cell", "two"]
    template = "<h1>Title</h1><p>One <b>{{ x }}</b>. Two.</p>"
    assert [s for s in _of_template(template) if s.strip()] == ["One CODE", "Two"]
    text = "{# Not this. #}\n# Title\n\nOne `{{ x | f('`') }}`. Two {{ y }}.\n"
    assert [s for s in _of_text_template(text) if s.strip()] == ["One CODE", "Two CODE"]
