"""The texts that are scaffolded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap

from jam_dagster.common.section import Section
from jam_dagster.common.yaml_text import write_yaml
from jam_dagster.keys import ReleaseKeys, section_in, sentence

HOME = ".jam"

DEMO_NOTE = (
    "Both are parts of a simulated health survey until you name your own, such as people.parquet."
)
OWN_NOTE = "Paths are relative to this file; ${VARIABLES} of the environment are filled in."
MISSING_NOTE = "There is no private.csv yet: name the table to protect."

_RELEASE_HEAD = """\
# A differentially private synthetic release. `dg check defs` checks this file;
# `jam-dagster plan --quick` says what fits and how large the noise is, before anything is spent;
# without `--quick` it simulates the error.
type: <type>

attributes:"""


def release_yaml(kind: str, given: Mapping[str, str], note: str) -> str:
    """Return the file of a release, with every key: a comment where no value is given.

    `given` are values, as YAML writes them, by the path of their key; `note` is what to say of the
    tables.
    """
    notes = {
        "private": f" {note}",
        "mechanism": " The least measured errors where the public table was related.",
        "privacy.neighbours": " replace_one shows the number of private records, so the budget must"
        " say that it is public.",
    }
    head = _RELEASE_HEAD.replace("<type>", kind)
    return "\n".join([head, *_lines(ReleaseKeys, given, notes)]) + "\n"


def resources_yaml(kind: str, dataset: str, budget: str) -> str:
    """Return the file of the resources, with the budget of one dataset."""
    text = _RESOURCES.replace("<type>", kind).replace("<home>", HOME)
    return text.replace("<dataset>", dataset).replace("<budget>", budget)


def _lines(
    section: type[Section], given: Mapping[str, str], notes: Mapping[str, str], above: str = ""
) -> Iterator[str]:
    indent = "    " if above else "  "
    for name, field in section.model_fields.items():
        text = sentence(field.description or "") + notes.get(above + name, "")
        if above + name in given and field.examples:
            text += f" Or {', '.join(map(_yaml, field.examples))}."
        yield from [""] * (not above)
        yield from (f"{indent}# {line}" for line in wrap(text, 94 - len(indent)))
        nested = section_in(field.annotation)
        if nested is not None and field.default is not None:
            yield f"{indent}{name}:"
            yield from _lines(nested, given, notes, f"{name}.")
        elif above + name in given:
            yield f"{indent}{name}: {given[above + name]}"
        elif above and field.default is not None:
            yield f"{indent}{name}: {_yaml(field.default)}"
        else:
            yield f"{indent}# {name}: {_yaml((field.examples or [field.default])[0])}"


def _yaml(value: object) -> str:
    return write_yaml(value, one_line=True).removesuffix("...\n").strip()


_RESOURCES = """\
# The privacy ledger and the two stores that every release of this project runs on.
type: <type>

attributes:
  # What may ever be spent on each protected dataset, all its releases together. The ledger grants
  # it on first use; afterwards `jam-dagster ledger grant` is the way to change it, not this file.
  # `records: public` says that the table has one fixed set of people whose number may be known.
  budgets:
    <dataset>: <budget>
    # Renewing each calendar month, with partitions that hold other people each:
    # visitors: {epsilon: 1.0, delta: 1.0e-9, period: month, partitions: disjoint,
    #   ground: membership public and fixed, records: public}

  # A folder for ledger and stores, relative to the project's. Lose it, and nothing can be released
  # from these datasets any more: what was spent would be forgotten.
  home: <home>
  # In production each has a place of its own, with permissions of its own:
  # ledger: "${JAM_LEDGER}"  # a file on a local disk, or postgresql://user@host/database
  # private: "${JAM_PRIVATE}"  # a folder, or an fsspec URL such as s3://closed/jam
  # releases: "${JAM_RELEASES}"
"""
