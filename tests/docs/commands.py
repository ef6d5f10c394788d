"""What a shell block that is not run must still hold to: its commands and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from docs_build.command_line import commands
from tests.docs.blocks import ROOT, Block

# Programs of other projects, whose options are theirs.
FOREIGN = {
    *("pip", ".venv/bin/pip", "uv", "python", "docker", "dg", ".venv/bin/dg", "dagster", "git"),
    *("celery", "kubectl", "psql", "pg_dump", "cd", "cp", "export", "for", "done", "ls", "mkdir"),
    *("open", "sed", "source"),
}


def faults(block: Block) -> list[str]:
    """Return what is wrong with the commands of a shell block."""
    return [fault for words in _commands(block.text) for fault in _faults(words)]


def _commands(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def _faults(words: list[str]) -> list[str]:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if not words:
        return []
    program, *rest = words
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", _text("Makefile"), re.M))
        known = {one for names in targets for one in names.split()}
        wanted = [one for one in rest if "=" not in one and not one.startswith("-")]
        return [f"make {one}: no such target" for one in wanted if one not in known]
    if program == "jam-dagster":
        return _jam_faults(rest)
    if rest[:1] == ["-m"] and rest[1].startswith("benchmarks."):
        module = ROOT / (rest[1].replace(".", "/") + ".py")
        if not module.exists():
            return [f"{rest[1]}: no such module"]
        source = module.read_text() + _text("benchmarks/process.py")
        options = [one.split("=")[0] for one in rest if one.startswith("--")]
        return [f"{rest[1]} has no option {one}" for one in options if f'"{one}"' not in source]
    return [] if program in FOREIGN else [f"{program}: not known to tests/docs/commands.py"]


def _jam_faults(rest: list[str]) -> list[str]:
    known = {tuple(name.split()[1:]): command for name, command in commands()}
    for length in (3, 2, 1):
        if command := known.get(tuple(rest[:length])):
            options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            given = [one.split("=")[0] for one in rest if one.startswith("--")]
            unknown = [one for one in given if one not in options]
            return [f"jam-dagster {rest[0]}: no option {one}" for one in unknown]
    return [f"jam-dagster {' '.join(rest[:2])}: no such command"]


def _text(name: str) -> str:
    return Path(ROOT / name).read_text()
