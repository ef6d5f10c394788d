"""`jam-dagster ledger move`: releases go on at the new place, and are refused at the old one."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger
from tests.cli_bench import NOISY, RELEASE, Run, lines, synthesize
from tests.postgres import PostgresServer

MOVE = ("ledger", "move", "--ledger", "ledger.db", "--reason", "a server")


@pytest.mark.slow
def test_a_release_goes_on_in_postgresql_and_back(
    released: Run, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("data").resolve()))
    url = postgres.create_database()

    moved = released(*MOVE, "--to", url)

    assert moved.exit_code == 0, moved.output
    assert moved.stdout.strip() == Ledger(url).verify().head
    place = Ledger(url).location
    assert f"The ledger is at {place} now" in moved.stderr
    assert f"has moved to {place}" in released("ledger", "show", "--ledger", "ledger.db").stdout
    shown = json.loads(released("ledger", "show", "--ledger", "ledger.db", "--json").stdout)
    assert shown["moved_to"] == place
    Path("priv.csv").rename("hidden.csv")
    refused = released(*synthesize(*RELEASE, *NOISY))
    assert refused.exit_code == 2
    assert f"has moved to {place}" in lines(refused)[-1]
    Path("hidden.csv").rename("priv.csv")
    # At the new place the release is known: it costs nothing, and its certificate holds.
    spent = Ledger(url).balance("people").spent
    again = released(*synthesize(*RELEASE, *NOISY, "--ledger", url))
    assert again.exit_code == 0, again.output
    assert Ledger(url).balance("people").spent == spent
    (secret,) = Path("data").rglob("source.key")
    assert secret.read_bytes() == Path("ledger.db-private/source.key").read_bytes()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    for where in (url, "ledger.db"):
        verified = released("certificate", "verify", "out", "--ledger", where)
        assert verified.exit_code == 0, verified.output

    back = released("ledger", "move", "--ledger", url, "--to", "ledger.db", "--reason", "back")

    assert back.exit_code == 0, back.output
    assert released("ledger", "verify", "--ledger", "ledger.db").stdout == back.stdout
    again = released(*synthesize(*RELEASE, *NOISY))
    assert again.exit_code == 0, again.output
    assert released("certificate", "verify", "out", "--ledger", "ledger.db").exit_code == 0


def test_a_move_needs_a_reason_and_one_destination(run: Run) -> None:
    blank = run("ledger", "move", "--ledger", "ledger.db", "--to", "new.db", "--reason", " ")
    assert blank.exit_code == 2
    assert "--reason" in lines(blank)[0]
    assert run(*MOVE, "--to", "new.db").exit_code == 0
    other = run(*MOVE, "--to", "other.db")
    assert other.exit_code == 2
    assert "has moved to" in lines(other)[0]
    assert "jam-dagster ledger move --ledger" in lines(other)[0]
    assert not Path("other.db").exists()
