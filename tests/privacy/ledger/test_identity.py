"""The identity of a ledger, and the file next to a release's definition that names it."""

import os
from pathlib import Path

import pytest

from jam_dagster.errors import BudgetError, InputError
from jam_dagster.privacy import Ledger, ReleaseId
from jam_dagster.privacy.ledger.identity import (
    LEDGER_ID,
    check_ledger,
    new_ledger_remark,
    read_ledger_id,
    write_ledger_id,
)


def test_a_ledger_is_known_by_its_first_event_wherever_it_moves(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.db")
    assert ledger.identity == ""
    made = ledger.adopt(reason="scaffolded")
    assert made == ledger.identity == ledger.events()[0].hash
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    assert ledger.adopt(reason="again") == made
    ledger.move(tmp_path / "b.db", reason="another disk")
    moved = Ledger(tmp_path / "b.db")
    assert moved.identity == made
    moved.verify()
    other = Ledger(tmp_path / "c.db")
    other.grant("people", epsilon=1.0, delta=1e-9)
    assert other.identity not in ("", made)


def test_what_is_written_is_read_and_nothing_else(tmp_path: Path) -> None:
    assert read_ledger_id(tmp_path) == ""
    identity = "0f" * 32
    file = write_ledger_id(tmp_path, identity)
    assert read_ledger_id(tmp_path) == identity
    assert file.name == LEDGER_ID
    assert file.read_text().startswith("# The privacy ledger that pays")
    for damaged in ("", "0f" * 31, f"{identity}\n{identity}\n", "x" * 64, "<<<<<<< ours\n"):
        file.write_text(damaged)
        with pytest.raises(InputError, match="holds no identity of a ledger"):
            read_ledger_id(tmp_path)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="it is not UTF-8"):
        read_ledger_id(tmp_path)
    file.unlink()
    # A link that leads nowhere is not as if there was none, and a pipe is not waited for.
    for put in (file.mkdir, lambda: file.symlink_to("nowhere"), lambda: os.mkfifo(file)):
        put()
        with pytest.raises(InputError, match=r"cannot be read \(it is no file\)"):
            read_ledger_id(tmp_path)
        file.rmdir() if file.is_dir() else file.unlink()


def test_another_ledger_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    ledger, other = Ledger(tmp_path / "a.db"), Ledger(tmp_path / "b.db")
    identity = ledger.adopt(reason="ours")
    check_ledger(ledger, identity)
    check_ledger(other, "")
    with pytest.raises(BudgetError, match=r"is not there, or empty\. Only the former knows"):
        check_ledger(other, identity)
    assert not other.exists
    other.grant("people", epsilon=1.0, delta=1e-9)
    with pytest.raises(BudgetError, match=r"is another one .* fetch that ledger.* adopts another"):
        check_ledger(other, identity)


def test_a_ledger_is_new_until_another_release_was_reserved(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    first = ReleaseId("people", "months", "a" * 64, "2026-01")

    def remark(but: ReleaseId | None = None, expected: str = "") -> str:
        return new_ledger_remark(ledger.events(), ledger.location, expected, "people", but)

    assert "is new to dataset 'people'" in remark(first)
    ledger.open_release(first, {"mechanism": 0.001})
    assert "is new to dataset 'people'" in remark(first)
    assert remark() == ""
    assert remark(first, ledger.identity) == ""
    ledger.open_release(ReleaseId("people", "months", "a" * 64, "2026-02"), {"mechanism": 0.001})
    assert remark(first) == ""
