"""Rows of a benchmark that never ran, for what only reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jam_dagster.trials.results import COLUMNS, Row

SPLITS = {"adult_pub025_01": (0.19, 0.32, 32_384), "titanic": (0.47, 0.62, 1_004)}
# What errors come to at epsilon = 1, how fast they fall with it, and the seconds.
PEERS = {
    "jam_pgm": ("JAM-PGM", 0.16, 0.1, 40.0),
    "aim": ("AIM", 0.19, 0.35, 90.0),
    "pmw_pub": ("PMW^Pub", 0.20, 0.02, 60.0),
    "mst": ("MST", 0.27, 0.2, 12.0),
    "independent": ("Independent", 0.36, 0.05, 3.0),
    "gem": ("GEM", 0.31, 0.2, 300.0),
    "gem_pub": ("GEM^Pub", 0.22, 0.1, 350.0),
}


def row(number: int, **columns: Any) -> Row:
    plain: Row = dict.fromkeys(COLUMNS)
    plain |= {
        "key": f"{number:016x}",
        "kind": "mechanism",
        "settings": "{}",
        "parameters": "{}",
        "records": 1000,
        "public_records": 300,
        "attributes": 9,
        "degree": 3,
        "workload": "all",
        "delta": 1e-9,
        "noise": "numpy, seeded",
        "peak_memory_mb": 200.0 + number % 50,
        "version": "0.1.0",
        "machine": "Linux x86_64, Python 3.12.3",
        "date": "2026-11-21T10:00:00+00:00",
        "status": "done",
        "message": "",
    }
    return plain | columns


def rows() -> list[Row]:
    """A comparison of seven mechanisms on two splits, and sweeps of T and of the size limit."""
    made = [*_comparison(), *_sweeps(), *_baselines()]
    return [one | {"key": f"{number:016x}"} for number, one in enumerate(made)]


def _comparison() -> Iterator[Row]:
    for split, (scale, _, records) in SPLITS.items():
        for name, (label, error, slope, seconds) in PEERS.items():
            for epsilon in (0.1, 1.0, 10.0):
                for seed in range(3):
                    level = error * scale / 0.19 * epsilon**-slope * (1 + 0.04 * (seed - 1))
                    public = {0.1: 20, 1.0: 12, 10.0: 3}[epsilon] if name == "jam_pgm" else 0
                    yield row(
                        seed,
                        split=split,
                        mechanism=name,
                        label=label,
                        records=records,
                        epsilon=epsilon,
                        seed=seed,
                        error_mean=level,
                        error_max=2.4 * level,
                        sample_share=0.01 / level**2,
                        seconds=seconds * epsilon**0.2,
                        parameters=json.dumps({"rounds": 30}),
                        rounds=30,
                        public_picks=public,
                        private_picks=30 - public,
                    )


def _sweeps() -> Iterator[Row]:
    for split, (scale, _, records) in SPLITS.items():
        for epsilon in (0.1, 1.0):
            for number, rounds in enumerate((5, 10, 50, 100)):
                for seed in range(2):
                    error = scale * (1.1 - 0.1 * number) * (1 + 0.02 * seed) / epsilon**0.1
                    yield row(
                        seed,
                        split=split,
                        mechanism="jam_pgm",
                        label="JAM-PGM",
                        records=records,
                        epsilon=epsilon,
                        seed=seed,
                        error_mean=error,
                        error_max=2 * error,
                        seconds=2.0 * rounds,
                        parameters=json.dumps({"rounds": rounds}),
                        settings=json.dumps({"rounds": rounds}),
                        rounds=rounds,
                        public_picks=1,
                        private_picks=rounds - 1,
                    )
            for limit in (5.0, 20.0, 80.0):
                error = scale * 1.3 * limit**-0.1 / epsilon**0.3
                yield row(
                    0,
                    split=split,
                    mechanism="aim",
                    label="AIM",
                    records=records,
                    epsilon=epsilon,
                    seed=0,
                    error_mean=error,
                    error_max=3 * error,
                    seconds=limit,
                    parameters=json.dumps({"rounds": None, "size_limit_mb": limit}),
                    settings=json.dumps({"size_limit_mb": limit}),
                    rounds=40,
                    public_picks=0,
                    private_picks=40,
                )


def _baselines() -> Iterator[Row]:
    for split, (public, ones, records) in SPLITS.items():
        levels = {"public_table": public, "true_one_ways": ones, "sampling_floor": 0.08}
        for name, error in (levels | {"best_mixture": 0.7 * public}).items():
            yield row(
                0,
                kind="baseline",
                split=split,
                mechanism=name,
                label=name,
                records=records,
                noise="none",
                error_mean=error,
                error_max=2 * error,
                seconds=0.1,
            )
