"""The rows of a benchmark in one Parquet file: a row for every finished run."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.common.operating_system import lock_whole
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

NOTICE = (
    "RESTRICTED. Exact errors of private tables, and seeded noise. Nothing of this may leave, "
    "unless the tables are published ones, or no secret otherwise."
)
"""The note in the file's metadata."""

_MARK = b"jam_dagster.benchmark"
_VERSION = b"1"

_TEXTS = (
    "key kind mechanism label settings parameters split split_of workload noise seconds_by_stage "
    "ended version machine date status message fingerprint tested_on"
)
_INTEGERS = (
    "records public_records attributes degree marginals seed rounds private_picks public_picks "
    "sampled first_candidates last_candidates most_candidates"
)
_FLOATS = (
    "epsilon delta rho_budget rho_spent error_mean error_max sample_share searched_error_mean "
    "searched_error_max searched_sample_share model_error_mean model_error_max model_sample_share "
    "cell_max cell_mean cell_rmse pairs8 association correlation tstr_auc seconds cpu_seconds "
    "peak_memory_mb model_mb first_limit_mb "
    "largest_model_mb sigma_least sigma_median sigma_most"
)
_COLUMNS = {
    name: kind
    for kind, names in (("string", _TEXTS), ("int64", _INTEGERS), ("float64", _FLOATS))
    for name in names.split()
}
"""The columns. Errors are fractions of the records: of rows that were sampled alone, of the same
rows after the search, and of the model; those of cells are of rows that were sampled alone, or of a
model that samples none. `sample_share` is the size of a random sample of the private records with
the same expected error, as a fraction of them. `pairs8`, `association` and `correlation` are the
errors of the rows that a release would have, see `PairErrors`; `tstr_auc` is the area under the ROC
curve of a classifier that learns from them, `tested_on` held-out or private rows. Memory is in 2^20
bytes, `settings`, `parameters` and `seconds_by_stage` are JSON, `seconds` and `cpu_seconds` are
those of mechanism and sampling, and `status` is ``done`` or ``failed``, with a `message`. A round
chooses from `first_candidates` (the first that chooses, within `first_limit_mb`), `last_candidates`
or `most_candidates`, and the `sigma_` columns are of its private measurements, in counts.
`fingerprint` is the split's, which holds of the private table its number of records only. Files of
earlier versions lack columns."""

COLUMNS = tuple(_COLUMNS)


def error_of(row: Row) -> float:
    """Return the mean error of a row: of searched rows, else of sampled ones, else of the model."""
    named = ("searched_error_mean", "error_mean", "model_error_mean")
    return float(next(row[name] for name in named if row.get(name) is not None))


def stages(seconds_by_stage: str | None) -> dict[str, float]:
    """Return the seconds by stage that a row has as JSON."""
    held: dict[str, float] = json.loads(seconds_by_stage or "{}")
    return held


def to_parquet(rows: Sequence[Row]) -> bytes:
    """Return rows as the content of a file; missing values are null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [(name, getattr(pa, kind)()) for name, kind in _COLUMNS.items()],
        metadata={_MARK: _VERSION, b"notice": NOTICE.encode()},
    )
    whole = [{name: row.get(name) for name in COLUMNS} for row in rows]
    table = pa.Table.from_pylist(whole, schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; empty if there is no file.

    Raises
    ------
    InputError
        If it holds other content, or is damaged.
    """
    if not path.exists():
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    other = InputError(
        f"{path} does not hold runs of this benchmark, holds those of another version of it, or is "
        "damaged: move it away, or name another file with --out."
    )
    content = path.read_bytes()
    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError):
        # OSError for a damaged page.
        raise other from None
    if (table.schema.metadata or {}).get(_MARK) != _VERSION or "workload" not in table.column_names:
        raise other
    rows: list[Row] = table.to_pylist()
    return rows


def gather(paths: Iterable[Path]) -> list[Row]:
    """Return the rows of several files, each run once: a successful row wins, then the later."""
    held: dict[str, Row] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is missing: make it with jam-dagster benchmark run.")
        for row in read_rows(path):
            before = held.get(row["key"])
            if before is None or row["status"] == "done" or before["status"] != "done":
                held[row["key"]] = row
    if not held:
        raise InputError("There are no runs to show: make some with jam-dagster benchmark run.")
    return list(held.values())


def read_frame(paths: Iterable[Path]) -> pd.DataFrame:
    """Return the rows of several files as one table; see `gather`."""
    import pandas as pd

    frame = pd.DataFrame(gather(paths), columns=list(COLUMNS))
    numbers = [name for name, kind in _COLUMNS.items() if kind != "string"]
    # A column without any number, such as public records, would not be one of numbers.
    return frame.assign(**{name: pd.to_numeric(frame[name]) for name in numbers})


class Results:
    """A file of rows that grows run by run; one process at a time writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = {row["key"]: row for row in read_rows(path)}

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Results]:
        """Lock the file, which need not exist, for this process."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with (path.parent / f".{path.name}.lock").open("w") as lock:
            if not lock_whole(lock.fileno(), wait=False):
                raise InputError(
                    f"Another benchmark writes to {path}: wait for it, or name another --out."
                )
            for partial in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"):
                # Drafts of a process that was killed while it wrote.
                partial.unlink()
            yield cls(path)

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of insertion."""
        return list(self._rows.values())

    def relabel(self, labels: Mapping[str, str]) -> None:
        """Set the labels of the runs with these keys."""
        labels = {key: label for key, label in labels.items() if key in self._rows}
        if any(self._rows[key]["label"] != label for key, label in labels.items()):
            for key, label in labels.items():
                self._rows[key]["label"] = label
            self._write()

    def add(self, row: Row) -> Row:
        """Add a row or replace that of the same run; return it with every column."""
        whole = {name: row.get(name) for name in COLUMNS}
        self._rows.pop(whole["key"], None)
        self._rows[whole["key"]] = whole
        self._write()
        return whole

    def _write(self) -> None:
        write_whole(self.path, to_parquet(self.rows), mode=OWNER_ONLY)
