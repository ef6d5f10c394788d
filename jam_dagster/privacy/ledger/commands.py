"""The commands of `jam-dagster ledger`, as errors quote them: whole, and quoted for a shell."""

from __future__ import annotations

import shlex

from jam_dagster.privacy.ledger.release_id import ReleaseId


def ledger_command(name: str, location: str, **options: str) -> str:
    """Return a command with its options; those without a value are left out."""
    words = ["jam-dagster", "ledger", *name.split(), "--ledger", location]
    for option, value in options.items():
        words += [f"--{option}", value] if value else []
    return shlex.join(words)


def grant_command(location: str, dataset: str = "ID") -> str:
    """Return the command that grants a dataset its budget."""
    return ledger_command("grant", location, dataset=dataset, epsilon="EPSILON", delta="DELTA")


def close_command(location: str, release_id: ReleaseId) -> str:
    """Return the command that closes an abandoned release."""
    return ledger_command("close", location, **release_options(release_id), reason="REASON")


def release_options(release_id: ReleaseId) -> dict[str, str]:
    """Return the options that name a release, without its specification."""
    edition = "" if release_id.edition == "1" else release_id.edition
    names = {"dataset": release_id.dataset, "release": release_id.release}
    return {**names, "partition": release_id.partition, "edition": edition}


def acknowledge_command(location: str, dataset: str = "ID") -> str:
    """Return the command that acknowledges attempts."""
    return ledger_command("acknowledge", location, dataset=dataset, reason="REASON")


def rebind_command(location: str, dataset: str, partition: str, table: str = "") -> str:
    """Return the command that drops the bindings of a partition, or names its table."""
    which = {"dataset": dataset, "partition": partition, "table": table}
    return ledger_command("rebind", location, **which, reason="REASON")


def no_ledger(location: str) -> str:
    """Return the message for a missing ledger."""
    return (
        f"there is no ledger at {location}; grant a dataset its budget to begin one: "
        f"{grant_command(location)}"
    )
