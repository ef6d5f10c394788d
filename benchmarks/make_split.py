"""A private and a public table from one, by either construction of the JAM paper.

    python -m benchmarks.make_split people.csv --domain domain.yaml --out splits/women_75 \
        --by sex --value female --public-share 0.75 --private-share 0.25 --public-rows 300
    python -m benchmarks.make_split people.csv --domain domain.yaml --out splits/error_04 \
        --target-error 0.4 --public-rows 300 --degree 2

A benchmark knows the split by the name of its folder, with `--data` the folder above. Splits are
for experiments: the chosen rows count as public, and errors are exact.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.errors import InputError
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    Workload,
    encode,
    source_from_config,
    stratified_split,
)

STRONGEST_TILT = 64.0
_STEPS = 60


class ConstructedSplit(NamedTuple):
    """Two tables over one domain without a record in common.

    `error` is the public one's mean workload error: an exact statistic of the private table.
    """

    private: EncodedTable
    public: EncodedTable
    error: float


def error_targeted_split(
    table: EncodedTable,
    *,
    target: float,
    public_rows: int,
    workload: Workload,
    tolerance: float = 0.005,
    seed: int = 0,
) -> ConstructedSplit:
    """Choose public rows with a target workload error against the other rows.

    Every record gets a score, the sum of random weights of its values and of its pairs of values,
    and the public rows are drawn without replacement with odds ``exp(tilt * score)``: without a
    tilt a random sample, with a strong one a sample of a corner of the table. The tilt is found by
    bisection. The same random numbers serve all tilts (the Gumbel trick), so a slightly stronger
    one exchanges few rows, and the error moves in small steps.

    The paper names the construction, but its authors' code does not contain it: the tilt is a
    choice of this package. It shifts single values as well as relations.
    """
    rng = np.random.default_rng(seed)
    score, noise = _scores(table, rng), rng.gumbel(size=table.records)

    def split(tilt: float) -> ConstructedSplit:
        chosen = np.zeros(table.records, dtype=bool)
        chosen[np.argpartition(-(tilt * score + noise), public_rows - 1)[:public_rows]] = True
        private, public = table.take(np.flatnonzero(~chosen)), table.take(np.flatnonzero(chosen))
        (error,) = table_errors(private, [public], workload)
        return ConstructedSplit(private, public, error.mean)

    low, high = 0.0, 0.25
    made = split(low)
    if made.error > target + tolerance:
        raise InputError(
            "The target error is below that of a random sample of so many public rows: raise the "
            "target, or take more public rows."
        )
    while abs(made.error - target) > tolerance:
        made = split(high)
        if made.error > target:
            break
        low, high = high, 2 * high
        if high > STRONGEST_TILT and abs(made.error - target) > tolerance:
            raise InputError(
                "The target error is above that of the most biased sample of so many public rows: "
                "lower the target, or take fewer public rows."
            )
    for _ in range(_STEPS):
        if abs(made.error - target) <= tolerance:
            return made
        middle = (low + high) / 2
        made = split(middle)
        low, high = (low, middle) if made.error > target else (middle, high)
    raise InputError(
        "No sample of so many public rows comes that close to the target error: raise the "
        "tolerance, or take more public rows."
    )


def _scores(table: EncodedTable, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the scores of all records, with mean 0 and standard deviation 1."""
    score = np.zeros(table.records)
    sizes = [attribute.size for attribute in table.domain.attributes]
    for column, size in zip(table.columns, sizes, strict=True):
        score += rng.normal(size=size)[column]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    for one, other in pairs:
        weights = rng.normal(size=sizes[one] * sizes[other])
        # All pairs together weigh as much as all single values.
        weights *= np.sqrt(len(sizes) / len(pairs))
        cells = table.columns[one].astype(np.intp) * sizes[other] + table.columns[other]
        score += weights[cells]
    standard: npt.NDArray[np.float64] = (score - score.mean()) / (score.std() or 1.0)
    return standard


def write_split(folder: Path, made: ConstructedSplit, how: Mapping[str, Any]) -> None:
    """Write a split and how it was made as the JAM authors do: codes, and the number of values."""
    if (folder / "domain.json").exists():
        raise InputError(f"{folder} holds a split already: name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "split.json", json.dumps(how, indent=1).encode(), mode=OWNER_ONLY)
    for name, table in (("priv", made.private), ("pub", made.public)):
        codes = pd.DataFrame(dict(zip(table.domain.names, table.columns, strict=True)))
        write_whole(folder / f"{name}.csv", codes.to_csv(index=False).encode(), mode=OWNER_ONLY)
    # Written last: if it exists, the split is whole.
    sizes = json.dumps(made.private.domain.sizes, indent=1)
    write_whole(folder / "domain.json", sizes.encode())


def make_split(arguments: argparse.Namespace) -> ConstructedSplit:
    """Read the table, and divide it as the arguments say."""
    domain = Domain.load(arguments.domain)
    workload = Workload.all_k_way(domain, arguments.degree)
    records = source_from_config(arguments.table).read(private=True)
    if arguments.target_error is not None:
        return error_targeted_split(
            encode(records, domain),
            target=arguments.target_error,
            public_rows=arguments.public_rows,
            workload=workload,
            seed=arguments.seed,
        )
    names = ("by", "value", "public_share", "public_rows", "private_share", "private_rows", "seed")
    halves = stratified_split(records, **{name: getattr(arguments, name) for name in names})
    private, public = (encode(one, domain) for one in halves)
    (error,) = table_errors(private, [public], workload)
    return ConstructedSplit(private, public, error.mean)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a split, and print its error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table")
    parser.add_argument("--domain", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public-rows", type=int, required=True)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--by", help="the column of which one value has other shares")
    how.add_argument("--target-error", type=float, help="the public table's error, 0 to 2")
    parser.add_argument("--value")
    parser.add_argument("--public-share", type=float)
    parser.add_argument("--private-share", type=float)
    parser.add_argument("--private-rows", type=int)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    if given.by is not None and None in (given.value, given.public_share):
        parser.error("--by needs --value and --public-share")
    made = make_split(given)
    said = {name: str(value) for name, value in vars(given).items() if value is not None}
    write_split(given.out, made, said | {"error": made.error})
    print(f"{given.out}: the public table has error {made.error:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
