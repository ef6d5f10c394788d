"""A ledger with a budget, and a release to spend it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger, ReleaseKey


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.grant("people", epsilon=1.0, delta=1e-9, by="officer", reason="policy")
    return ledger


@pytest.fixture
def key() -> ReleaseKey:
    return ReleaseKey("people", "yearly", "d1gest")
