"""What the officer of a test's dataset says of its people, so that replace-one releases run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from jam_dagster.privacy import Ledger, Policy

FIXED: dict[str, Any] = {"ground": "membership public and fixed", "records": "public"}
"""The words as a `DatasetBudget` has them."""

PUBLIC_N = Policy(**FIXED)
"""How many people there are is public, in the dataset and in each partition."""


def grant_as_refused(ledger: Ledger, refused: object) -> None:
    """Grant what a refusal says that an officer would have to grant."""
    command = shlex.split(str(refused).rpartition("grant it: ")[2])
    given = dict(zip(command[3::2], command[4::2], strict=True))
    words: dict[str, Any] = {name: given[f"--{name}"] for name in FIXED if f"--{name}" in given}
    before = ledger.balance(given["--dataset"])
    ledger.grant(
        before.dataset,
        epsilon=float(given["--epsilon"]),
        delta=float(given["--delta"]),
        policy=replace(before.policy, **words),
        sources=given.get("--sources"),
        reason="read by the officer",
    )
