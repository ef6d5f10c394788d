"""Which rows of a benchmark belong together: the same experiment, but for its seed and epsilon."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from jam_dagster.benchmark.runs import run_key

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
    """Return rows with what tells different experiments from each other, in words.

    Two rows are of one experiment where they may be averaged: the same tables, workload, delta,
    mechanism, settings and version; epsilon and the seed may differ. Tables are the same where
    their split has the same name and fingerprint, which changes with the domain, the number of
    private records, and the public table. Of a private table that changed and kept its length a row
    cannot tell. What is asked (tables, workload, delta) decides the panel, and who answers
    (mechanism, settings, version) decides the line.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.benchmark.read_frame`.
    machines
        Whether runs on different machines are different experiments, as they are for times.

    Returns
    -------
    DataFrame
        The rows, in which ``split`` is the name of a panel: the split's, and where rows of that
        name differ in what is asked, in what they do. The workload and delta are told wherever
        any two rows differ in them. New are ``told``, in what rows of one label differ apart from
        their settings; and ``tables``, a number a table and workload. ``label`` is as it was.
    """
    rows = frame.copy()
    rows["fingerprint"] = _fingerprints(rows)
    asked = [*_TABLES, "degree"]
    rows["tables"] = rows.groupby(asked, sort=False, dropna=False).ngroup()
    runs = rows["kind"] == "mechanism"
    # Baselines cost nothing, so their delta says nothing.
    everywhere = [
        name for name, some in (("degree", rows), ("delta", rows[runs])) if _kinds(some[name]) > 1
    ]
    told = _differences(rows, "split", _SIZES)
    alike = [rows["split"], told]
    many = rows.groupby(alike, sort=False)["fingerprint"].transform(_kinds) > 1
    named = rows["fingerprint"].map(_IN_WORDS["fingerprint"]).where(many, "")
    parts = [rows["split"].astype(str), told, named]
    parts += [rows[name].map(_IN_WORDS[name]) for name in everywhere]
    rows["told"] = _differences(
        rows[runs], "label", ("mechanism", "version", *(["machine"] if machines else []))
    ).reindex(rows.index, fill_value="")
    rows["split"] = [", ".join(filter(None, one)) for one in zip(*parts, strict=True)]
    return rows


def with_settings(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return runs whose label says in what rows of that label differ; ``title`` is without it.

    Parameters
    ----------
    runs
        Rows of `apart`.
    column
        Holds settings as JSON: those that rows of one line are to agree in.
    """
    runs = runs.copy()
    lines = runs.groupby(["label", "told"], sort=False)[column]
    settings = lines.transform(lambda one: _setting_differences(list(one)))
    pairs = zip(runs["label"], runs["told"], settings, strict=True)
    runs["title"] = runs["label"]
    runs["label"] = [named(label, told, some) for label, told, some in pairs]
    return runs


def named(title: str, *told: str) -> str:
    """Return a title, with what is told besides in parentheses."""
    words = ", ".join(filter(None, told))
    return f"{title} ({words})" if words else str(title)


def _differences(rows: pd.DataFrame, name: str, columns: Sequence[str]) -> pd.Series[str]:
    """Return in words in which columns rows of one name differ, and what each row has there."""
    told: dict[Any, str] = {}
    for _, group in rows.groupby(name, sort=False):
        differing = [one for one in columns if _kinds(group[one]) > 1]
        words = [group[one].map(_IN_WORDS[one]) for one in differing]
        told |= zip(group.index, map(", ".join, zip(*words, strict=True)), strict=False)
    return pd.Series([told.get(place, "") for place in rows.index], index=rows.index, dtype=object)


def _kinds(values: pd.Series[Any]) -> int:
    return len(values.drop_duplicates())


def _setting_differences(given: Sequence[str]) -> list[str]:
    """Return of each of several settings what the others have otherwise."""
    held = [json.loads(one) for one in given]
    names = dict.fromkeys(name for one in held for name in one)
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in held}) > 1]
    return [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in held]


def _fingerprints(rows: pd.DataFrame) -> pd.Series[Any]:
    """Return the fingerprint of each row's tables; of one that lacks it, the one that fits its key.

    Files of the first version that wrote rows have none.
    """
    held = rows["fingerprint"].astype(object).where(rows["fingerprint"].notna(), None)
    known = {
        split: list(dict.fromkeys(group))
        for split, group in held[held.notna()].groupby(rows["split"])
    }
    for place in held.index[held.isna() & rows["split"].isin(list(known))]:
        row = rows.loc[place]
        fitting = (one for one in known.get(row["split"], []) if _key(row, one) == row["key"])
        held[place] = next(fitting, None)
    return held


def _key(row: pd.Series[Any], fingerprint: str) -> str:
    return run_key(
        split=str(row["split"]),
        mechanism=str(row["mechanism"]),
        parameters=json.loads(row["parameters"]),
        epsilon=None if pd.isna(row["epsilon"]) else float(row["epsilon"]),
        seed=None if pd.isna(row["seed"]) else int(row["seed"]),
        delta=float(row["delta"]),
        degree=int(row["degree"]),
        fingerprint=fingerprint,
    )
