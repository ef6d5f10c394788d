"""What came of a release, in a few lines: ``python -m assets.summary health_survey``.

Read from what the release left in its stores and in the ledger, so it tells the same story after
any run, of this process or of another.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jam_dagster.certificates import Certificate
from jam_dagster.errors import InputError
from jam_dagster.evaluation import verdict_of
from jam_dagster.mechanisms import Transcript
from jam_dagster.pipeline import LedgerResource, ReleaseStoreResource
from jam_dagster.pipeline.storage.formats import ErrorFormat
from jam_dagster.privacy import Ledger, Release, describe_rho
from resources import build_resources

if TYPE_CHECKING:
    from upath import UPath


@dataclass(frozen=True)
class Stores:
    """Where a release's assets lie: what may leave in the first root, the rest in the second."""

    release: str
    roots: tuple[UPath, ...]

    def find(self, name: str) -> UPath:
        """Return the path of a file or folder that the release left.

        Raises
        ------
        InputError
            If it left none.
        """
        for root in self.roots:
            path: UPath = root / self.release / name
            if path.exists():
                return path
        raise InputError(
            f"{self.release} has no {name} below {' or '.join(map(str, self.roots))}: "
            "materialize the release first, `make demo` does so for the demo."
        )


def summarize(release: str) -> str:
    """Return what a release made, what it cost and how good it is.

    Parameters
    ----------
    release
        Its name.

    Raises
    ------
    InputError
        If it was not materialized.
    """
    resources = build_resources()
    stores = Stores(
        release,
        tuple(
            resource.open().root
            for name in ("releasable_io_manager", "private_io_manager")
            if isinstance(resource := resources[name], ReleaseStoreResource)
        ),
    )
    certificate = stores.find("release_certificate")
    mechanism = Certificate.load(certificate).mechanism
    transcript = Transcript.load(stores.find(f"{mechanism}.run") / "transcript")
    verdict = verdict_of(ErrorFormat().read(stores.find("workload_error.json")))
    suites = json.loads(stores.find("synthetic_records.checks.json").read_text())
    failed, checked = (
        sum(one["statistics"][f"{which}_expectations"] for one in suites)
        for which in ("unsuccessful", "evaluated")
    )
    lines = {
        "Verdict": " ".join((verdict.headline, *verdict.notes)),
        "Checks": f"{failed} of {checked} failed" if failed else f"all {checked} passed",
        "Synthetic table": f"{stores.find('synthetic_records.csv')} ({transcript.records:,} rows)",
        "Report": str(stores.find("release_report.html")),
        "Certificate": str(certificate / "certificate.html"),
        "Privacy spent": _spent(resources["ledger"], release, transcript),
        "Rounds": " and ".join(f"{n} {source}" for source, n in transcript.picks.items()),
    }
    return "\n".join(f"{name:<17}{line}" for name, line in lines.items())


def _spent(ledger: object, release: str, transcript: Transcript) -> str:
    """Return what the ledger charged for the last edition of the release."""
    if not transcript.releasable or not isinstance(ledger, LedgerResource):
        return f"none: the noise is seeded, and would have cost rho {transcript.rho_spent:.6g}"
    opened = Ledger(ledger.url)
    charged: Release = [one for one in opened.releases() if one.key.release == release][-1]
    spent = sum(charged.account(share).spent for share in charged.shares)
    balance = opened.balance(charged.key.dataset)
    return (
        f"{describe_rho(spent, balance.delta)}; "
        f"{describe_rho(balance.remaining, balance.delta)} is left"
    )


def main() -> None:
    """Print the summary of the release that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m assets.summary RELEASE")
    try:
        sys.stdout.write(summarize(sys.argv[1]) + "\n")
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
