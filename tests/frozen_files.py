"""The files of a release as a listing: names, modes and what is in each, whatever noise decides."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml

FROZEN = Path(__file__).with_name("frozen_files.json")

# Digests and names of runs differ from release to release.
_NAMED_BY_DIGEST = re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*\d)[0-9a-f]{12,64}(?![0-9a-z])")
_ROUND = re.compile(r"(round[-_]|potential_|decision-|solutions_)\d+")
_MOST_KEYS = 40
# Noise decides if a tilted model's rows keep moments, and so if it holds these.
_DECIDED_BY_NOISE = {"log_frequencies"}


def listing(root: Path) -> dict[str, str]:
    """Return each path below a folder, with its mode and what it holds.

    Paths of which noise decides how many there are, such as those of rounds, are one line.
    """
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = _numbered(str(path.relative_to(root)))
        mode = stat.S_IMODE(path.lstat().st_mode)
        held = "folder" if path.is_dir() else _held(path)
        found[name] = f"{mode:o} {held}"
    return found


def frozen(case: str, found: dict[str, str]) -> dict[str, str]:
    """Return the frozen listing of a case; with `JAM_FREEZE` in the environment, freeze it anew."""
    known: dict[str, dict[str, str]] = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    if os.environ.get("JAM_FREEZE"):
        known[case] = found
        FROZEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return known[case]


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of each file below a folder."""
    return {
        str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()
    }


def _held(path: Path) -> str:
    suffix = path.suffix
    if suffix == ".json":
        return f"json {_keys(json.loads(path.read_text()))}"
    if suffix in (".yaml", ".yml"):
        return f"yaml {_keys(yaml.safe_load(path.read_text()))}"
    if suffix == ".parquet":
        schema = pq.read_schema(path)
        columns = ", ".join(f"{one.name}: {one.type}" for one in schema)
        about = ", ".join(sorted(key.decode() for key in schema.metadata or {}))
        return f"parquet {columns} | {about}"
    if suffix in (".npz", ".npy"):
        with np.load(path) as arrays:
            names = {_numbered(one) for one in arrays.files} - _DECIDED_BY_NOISE
            return f"npz {', '.join(sorted(names))}"
    if suffix == ".csv":
        return f"csv {path.read_text().splitlines()[0]}"
    if suffix in (".html", ".txt", ".sha256", ".key"):
        return (
            f"{suffix[1:]}"
            if suffix != ".sha256"
            else f"sha256 {_keys(json.loads(path.read_text()))}"
        )
    return "file"


def _numbered(name: str) -> str:
    """Return a name without digests, and without the numbers of rounds and cliques."""
    return _ROUND.sub(r"\g<1>#", _NAMED_BY_DIGEST.sub("#", name))


def _keys(value: Any, depth: int = 2) -> str:
    """Return the keys of a mapping, two levels deep, without those that are digests."""
    if not isinstance(value, dict):
        return type(value).__name__
    names = sorted({_numbered(str(one)) for one in value})
    if len(names) > _MOST_KEYS:
        return f"{len(names)} keys"
    inner = [
        f"{name}{{{_keys(value[name], depth - 1)}}}"
        if depth > 1 and isinstance(value.get(name), dict)
        else name
        for name in names
    ]
    return ", ".join(inner)
