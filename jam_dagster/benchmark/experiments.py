"""Experiments: groups of a benchmark's rows that differ only in seed and epsilon."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

_SIZES = ("records", "public_records", "attributes")
_TABLES = ("split", *_SIZES, "fingerprint")

_IN_WORDS: Mapping[str, Callable[[Any], str]] = {
    "records": lambda value: f"{int(value):,} records",
    "public_records": lambda value: (
        "no public table" if pd.isna(value) else f"{int(value):,} public records"
    ),
    "attributes": lambda value: f"{int(value)} attributes",
    "fingerprint": lambda value: "tables unknown" if pd.isna(value) else f"tables {value[:6]}",
    "degree": lambda value: f"{int(value)}-way marginals",
    "delta": lambda value: f"delta {value:g}",
    "mechanism": str,
    "version": lambda value: f"version {value}",
    "machine": str,
}


def apart(frame: pd.DataFrame, *, machines: bool = False) -> pd.DataFrame:
    """Return rows with texts that distinguish different experiments.

    Two rows belong to one experiment if they may be averaged: the same tables, workload, delta,
    mechanism, settings and version; epsilon and the seed may differ. Tables are the same if their
    split has the same name and fingerprint, which covers the domain, the number of private records
    and the public table. A changed private table of the same length is not detected. Tables,
    workload and delta decide the panel; mechanism, settings and version decide the line.

    ``split`` becomes the name of a panel: the split's name, with the differences between rows of
    that name. It names the workload and delta if any two rows differ in them. New columns:
    ``shown``, the differences between rows of one label other than settings (also the machine, if
    times are compared); and ``tables``, a number for each pair of tables and workload.
    """
    rows = frame.copy()
    question = [*_TABLES, "degree"]
    rows["tables"] = rows.groupby(question, sort=False, dropna=False).ngroup()
    runs = rows["kind"] == "mechanism"
    # Baselines cost nothing, so their delta is meaningless.
    everywhere = [
        name for name, some in (("degree", rows), ("delta", rows[runs])) if _kinds(some[name]) > 1
    ]
    shown = _differences(rows, "split", _SIZES)
    alike = [rows["split"], shown]
    many = rows.groupby(alike, sort=False)["fingerprint"].transform(_kinds) > 1
    named = rows["fingerprint"].map(_IN_WORDS["fingerprint"]).where(many, "")
    parts = [rows["split"].astype(str), shown, named]
    parts += [rows[name].map(_IN_WORDS[name]) for name in everywhere]
    rows["shown"] = _differences(
        rows[runs], "label", ("mechanism", "version", *(["machine"] if machines else []))
    ).reindex(rows.index, fill_value="")
    rows["split"] = [", ".join(filter(None, one)) for one in zip(*parts, strict=True)]
    return rows


def with_settings(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return runs of `apart` with the differences between rows of a label in it.

    The column of settings as JSON must agree within a line; ``title`` is the label before.
    """
    runs = runs.copy()
    lines = runs.groupby(["label", "shown"], sort=False)[column]
    settings = lines.transform(lambda one: _setting_differences(list(one)))
    pairs = zip(runs["label"], runs["shown"], settings, strict=True)
    runs["title"] = runs["label"]
    runs["label"] = [named(label, shown, some) for label, shown, some in pairs]
    return runs


def named(title: str, *shown: str) -> str:
    """Return a title, with further words in parentheses."""
    words = ", ".join(filter(None, shown))
    return f"{title} ({words})" if words else str(title)


def _differences(rows: pd.DataFrame, name: str, columns: Sequence[str]) -> pd.Series[str]:
    """Return in words the columns in which rows of one name differ, with each row's values."""
    shown: dict[Any, str] = {}
    for _, group in rows.groupby(name, sort=False):
        differing = [one for one in columns if _kinds(group[one]) > 1]
        words = [group[one].map(_IN_WORDS[one]) for one in differing]
        shown |= zip(group.index, map(", ".join, zip(*words, strict=True)), strict=False)
    return pd.Series([shown.get(place, "") for place in rows.index], index=rows.index, dtype=object)


def _kinds(values: pd.Series[Any]) -> int:
    return len(values.drop_duplicates())


def _setting_differences(given: Sequence[str]) -> list[str]:
    """Return for each of several settings the values that differ from the others."""
    held = [json.loads(one) for one in given]
    names = dict.fromkeys(name for one in held for name in one)
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in held}) > 1]
    return [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in held]
