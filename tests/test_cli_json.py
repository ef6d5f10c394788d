"""`--json`: every command prints its result as one JSON object."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from docs_build.command_line import commands
from jam_dagster.privacy import Ledger
from jam_dagster.privacy.ledger.release_id import fingerprint_of
from jam_dagster.trials.results import to_parquet
from tests.cli_bench import NOISY, RELEASE, Run, definition, synthesize
from tests.reports.test_registry import WRITTEN
from tests.test_cli_ledger_approval import APPROVE, ONE, PLAN
from tests.tiers import first_quick
from tests.trials.conftest import data as data
from tests.trials.conftest import grid_file as grid_file
from tests.trials.rows import row

WHY = ("--reason", "asked for")
LEDGER = ("--ledger", "ledger.db")
PEOPLE = (*LEDGER, "--dataset", "people")
KEY = base64.b64encode(bytes(32)).decode()
AIM = ("--mechanism", "aim", "--setting", "rounds=6")
GRANT = ("ledger", "grant", *PEOPLE, "--epsilon", 1, "--delta", 1e-9)


def _key() -> None:
    Ledger("ledger.db").signing_keys.add(KEY)


def _written() -> None:
    Path("written.yaml").write_text(yaml.safe_dump(WRITTEN))


def _rare_job() -> None:
    """Put a value into the private table that no public row has."""
    pd.DataFrame({"age": [20, 97], "job": ["baker", "SENTINEL"]}).to_csv(
        "raw-priv.csv", index=False
    )


def _rows() -> None:
    Path("rows.parquet").write_bytes(
        to_parquet(
            [
                row(
                    0,
                    mechanism="aim",
                    label="AIM",
                    split="a",
                    epsilon=1.0,
                    seed=0,
                    error_mean=0.2,
                    seconds=1.0,
                )
            ]
        )
    )


CROISSANT = (
    *("export", "croissant", "out", "--url", "https://example.org", "--creator", "An office"),
    *("--license", "https://spdx.org/licenses/CC0-1.0"),
)
DRAFT = ("domain", "draft", "--public", "raw-pub.csv", "--out", "draft.yaml")
CASES: dict[
    str, tuple[list[Callable[[], None] | tuple[object, ...]], tuple[object, ...], set[str]]
] = {
    "synthesize": ([], tuple(synthesize(*RELEASE, *NOISY)), {"releasable", "verdict"}),
    "plan": ([], (*PLAN, "--quick"), {"specification"}),
    "mechanisms": ([], ("mechanisms",), {"jam_pgm", "aim"}),
    "domain draft": (
        [_rare_job],
        (*DRAFT, "--private", "raw-priv.csv", "--research"),
        {"file", "attributes", "cells", "remarks", "restricted"},
    ),
    "ledger approve": ([(*GRANT, "--approval", "required")], (*APPROVE, *ONE), {"kind", "hash"}),
    "ledger move": ([], ("ledger", "move", *LEDGER, "--to", "new.db", *WHY), {"ledger", "head"}),
    "ledger key new": (
        [],
        ("ledger", "key", "new", *LEDGER, "--out", "key.pem", *WHY),
        {"fingerprint", "public"},
    ),
    "ledger key list": ([], ("ledger", "key", "list", *LEDGER), {"keys"}),
    "ledger key revoke": (
        [_key],
        ("ledger", "key", "revoke", fingerprint_of(KEY), *LEDGER, *WHY),
        {"fingerprint", "revoked"},
    ),
    "ledger show": (
        [],
        ("ledger", "show", *LEDGER),
        {"datasets", "by_hand", "events", "identity", "moved_to"},
    ),
    "ledger grant": ([], GRANT, {"dataset", "rho", "epsilon_at_delta"}),
    "ledger adopt": (
        [lambda: definition()],
        ("ledger", "adopt", *LEDGER, *WHY, "defs.yaml"),
        {"ledger", "identity", "files"},
    ),
    "ledger by-hand": ([GRANT], ("ledger", "by-hand", *LEDGER, *WHY), {"ledger", "by_hand"}),
    "ledger upgrade": ([], ("ledger", "upgrade", *LEDGER), {"ledger"}),
    "ledger close": (
        [],
        ("ledger", "close", *PEOPLE, "--release", "out", *WHY),
        {"release", "rho_returned", "rho_remaining"},
    ),
    "ledger verify": ([], ("ledger", "verify", *LEDGER), {"events", "head", "accesses"}),
    "ledger acknowledge": ([], ("ledger", "acknowledge", *PEOPLE, *WHY), {"dataset", "attempts"}),
    "ledger rebind": ([], ("ledger", "rebind", *PEOPLE, *WHY), {"dataset", "releases"}),
    "certificate show": ([], ("certificate", "show", "out"), {"privacy", "files"}),
    "certificate verify": ([], ("certificate", "verify", "out"), {"passed", "releasable"}),
    "certificate withdraw": ([], ("certificate", "withdraw", "out", *LEDGER, *WHY), {"kind", "at"}),
    "certificate dossier": (
        [],
        ("certificate", "dossier", "out", "--out", "dossier.html"),
        {"file"},
    ),
    "export marginals": (
        [tuple(synthesize(*RELEASE, "--epsilon", "0.3", "--out", "aim", *AIM))],
        ("export", "marginals", "aim", "--out", "tables"),
        {"files"},
    ),
    "export croissant": ([], (*CROISSANT, "--out", "out/croissant.json"), {"file"}),
    "export registry": (
        [_written],
        ("export", "registry", "out", "--written", "written.yaml", "--out", "record.yaml"),
        {"file"},
    ),
    "benchmark run": (
        [],
        ("benchmark", "run", "grid.yaml", "--data", "data", "--list"),
        {"runs", "to_be_made", "seconds"},
    ),
    "benchmark figures": ([_rows], ("benchmark", "figures", "rows.parquet"), {"files"}),
    "demo data": (
        [],
        ("demo", "data", "--out", "demo"),
        {"files"},
    ),
}


@pytest.mark.parametrize(
    "command", first_quick([name.removeprefix("jam-dagster ") for name, _ in commands()])
)
def test_a_result_is_one_json_object(
    released: Run, data: Path, grid_file: Path, command: str
) -> None:
    for name in (data, grid_file):
        name.rename(name.name)
    before, arguments, keys = CASES[command]
    for step in before:
        if callable(step):
            step()
        else:
            assert released(*step).exit_code == 0

    done = released(*arguments, "--json")

    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    assert keys <= json.loads(line).keys()
    assert "SENTINEL" not in done.output
