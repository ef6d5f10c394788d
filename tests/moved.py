"""Releases that were copied with their tables: the ledger learns where those lie now."""

from pathlib import Path

from jam_dagster.privacy import Ledger
from jam_dagster.privacy.ledger.bindings import bind
from jam_dagster.privacy.ledger.source_binding import SourceBinding
from jam_dagster.tables import source_from_config

DATASET = "people"


def bind_again(ledger: Ledger, private: Path, secret: Path) -> None:
    """Bind the releases of a ledger to the private table in its new place.

    Parameters
    ----------
    ledger
        The copy.
    private
        The table.
    secret
        The file of the secret by which sources are bound.
    """
    ledger.rebind(DATASET, reason="copied for a test")
    source = SourceBinding.of(secret.read_bytes(), source_from_config(str(private)).identity())
    releases = ledger.reservations(DATASET)
    with ledger._backend.writing() as connection:
        for release in releases:
            bind(connection, release.release_id, source, at="", run_id="copy")
