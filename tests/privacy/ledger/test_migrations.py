"""The ledger's schema: what its revisions make, and which of them is read."""

from __future__ import annotations

import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger import migrations
from jam_dagster.privacy.ledger.journal import append, metadata
from jam_dagster.privacy.ledger.postgres import SCHEMA


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        (1, "has version 1, this package reads version 5; only the unpublished jam-dagster that"),
        (6, "has version 6, this package reads version 5; install the version of jam-dagster that"),
    ],
)
def test_a_ledger_of_another_version_is_refused_and_stays_as_it_is(each_url, revision, message):
    ledger = Ledger(each_url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    with ledger._backend.writing() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {revision}")
        else:
            connection.exec_driver_sql(
                f"UPDATE {SCHEMA}.alembic_version SET version_num = '{revision:04}'"
            )
    ledger.upgrade()
    for attempt in (
        ledger.verify,
        ledger.check_writable,
        lambda: ledger.grant("people", epsilon=2.0, delta=1e-9),
    ):
        with pytest.raises(BudgetError, match=message):
            attempt()


def test_a_ledger_before_a_later_revision_is_to_be_upgraded(monkeypatch):
    monkeypatch.setattr(migrations, "REVISION", "0006")
    fault = migrations.version_fault("ledger.db", migrations.BASELINE)
    assert "run `jam-dagster ledger upgrade --ledger ledger.db`" in fault


def test_what_the_revisions_make_is_what_the_code_reads(each_url):
    ledger = Ledger(each_url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    with ledger._backend.reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_object": lambda one, name, kind, *_: kind != "index"}
        )
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == migrations.REVISION


@pytest.mark.parametrize(
    "kind",
    [Kind.RESERVED, Kind.CHARGED, Kind.RETURNED, Kind.CLOSED, Kind.STORED, Kind.COUNTED],
)
def test_an_index_refuses_what_the_code_would_write_twice(each_url, kind):
    ledger = Ledger(each_url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)

    def write(units):
        with ledger._backend.writing() as connection:
            append(connection, kind, "people", release="r", share="s", units=units)

    write(1)
    with pytest.raises(BudgetError, match=r"UNIQUE constraint failed|written at the same time"):
        write(2)


def test_the_last_revision_is_the_one_that_is_read():
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "jam_dagster.privacy.ledger:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == migrations.REVISION


def test_a_new_ledger_does_not_wait_for_alembic(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "alembic", None)
    ledger = Ledger(path)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    ledger.open_release(ReleaseId("people", "a", "x"), {"mechanism": 0.001})
    ledger.upgrade()
    ledger.verify()
