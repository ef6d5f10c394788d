"""`jam-dagster certificate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jam_dagster.cli.console import echo, group, print_json, print_result, public_source, tell
from jam_dagster.cli.ledger_view import event_in_json
from jam_dagster.cli.options import AsJson, check_reason
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upath import UPath

    from jam_dagster.certificates import Certificate, Finding

app = group("The promises of a release, its cost, and whether they are true.")

WhereArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="The certificate.json, or the folder that holds it; also a URL."
    ),
]

_PLACE = "Paths of files, if not those in the certificate"


@app.command()
def show(
    where: WhereArgument,
    as_json: AsJson = False,
) -> None:
    """Show what a certificate says, without checking it.

    ```
    jam-dagster certificate show release
    ```
    """
    from jam_dagster.certificates import Certificate
    from jam_dagster.privacy import describe_rho
    from jam_dagster.privacy.ledger.release_id import fingerprint_of

    certificate = Certificate.load(_path(where))
    if as_json:
        print_json(certificate.to_dict())
        return
    release_id, asked = certificate.release_id, certificate.asked
    partition = f", partition {release_id.partition}" if release_id.partition else ""
    lines = {
        "Release": f"{release_id.release}{partition}, edition {release_id.edition}, "
        f"of {release_id.dataset}",
        "Guarantee": f"epsilon {asked.epsilon:g} at delta {asked.delta:g}",
        "Protects": certificate.neighbours.describe(),
        "Spent": describe_rho(certificate.rho_spent, asked.budget.converts_at)
        if certificate.draws
        else "0",
        "Draws": f"{len(certificate.draws)}, with {certificate.noise} noise",
        "Ledger": f"{len(certificate.entries)} entries"
        if certificate.standing
        else "none was charged",
        "Made": certificate.made,
        "Signed": "no"
        if certificate.signature is None
        else f"with the key {fingerprint_of(certificate.signature.key)}, as it says",
    }
    for name, line in lines.items():
        echo(f"{name:<12}{line}")
    for condition in certificate.conditions:
        echo(f"{'yes' if condition.met else 'NO':<12}{condition.condition}")
        if not condition.met:
            echo(f"{'':<12}{condition.because}")
    echo(f"{'May leave':<12}{'yes' if certificate.releasable else 'no'}")


_ChargedLedger = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The ledger that was charged: a file or a SQLAlchemy URL. Without it, the "
        "ledger's entries are checked by themselves only.",
    ),
]
_PublicTables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE",
        help="The public table of the release. Some mechanisms' models are made of it, and "
        "cannot be refitted without. Each of several is NAME=TABLE, in the order that they "
        "had.",
    ),
]
_Signers = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="A public key (PEM) that must have signed the certificate; of several, one.",
    ),
]


@app.command()
def verify(
    where: WhereArgument,
    ledger: _ChargedLedger = None,
    public: _PublicTables = None,
    key: _Signers = None,
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_PLACE, help="The table.")
    ] = None,
    domain: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_PLACE, help="The domain.")
    ] = None,
    transcript: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=_PLACE, help="The transcript's folder."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=_PLACE, help="The model's folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a certificate from the files of its release, without private data.

    ```
    jam-dagster certificate verify release --ledger ledger.db
    ```

    It adds up the charges again, checks each draw's noise against what was paid for it, checks
    the chain of the ledger's entries, refits the model from the measurements, samples the table
    from it, and compares both with what is there. Each check is a line; the exit status is 1 if
    any failed. That a certificate is true does not mean that its table may leave: the last line
    says whether it may.
    """
    from jam_dagster.certificates import Certificate, released_files
    from jam_dagster.certificates import verify as check
    from jam_dagster.certificates.signing import read_public
    from jam_dagster.privacy import Ledger

    path = _path(where)
    signing_keys = [read_public(one) for one in key or ()]
    moved = released_files(table=table, domain=domain, transcript=transcript, model=model)
    opened = None if ledger is None else Ledger(ledger)
    findings = check(
        path,
        files=moved,
        ledger=opened,
        public=public_source(public) if public else None,
        signing_keys=signing_keys,
    )
    certificate = Certificate.load(path)
    passed = all(finding.passed for finding in findings)
    if as_json:
        listed = [vars(finding) for finding in findings]
        releasable = passed and certificate.releasable
        print_json({"passed": passed, "releasable": releasable, "findings": listed})
    else:
        _print_findings(findings, certificate)
        if opened is None and certificate.standing is not None:
            tell(
                "The entries were not looked up in the ledger: give --ledger to be sure that it "
                "was charged, and for what.",
            )
    if not passed:
        raise typer.Exit(1)


def _print_findings(findings: Sequence[Finding], certificate: Certificate) -> None:
    for finding in findings:
        verdict = ("pass" if finding.checked else "----") if finding.passed else "FAIL"
        echo(f"{verdict}  {finding.name}: {finding.message}")
    whole = all(finding.checked for finding in findings)
    true = "The certificate is true" + ("" if whole else " as far as it was checked")
    if not all(finding.passed for finding in findings):
        echo("The certificate is not to be relied on.")
    elif certificate.releasable:
        echo(f"{true}, and the table may leave.")
    else:
        echo(f"{true}, and says that the table may not leave:")
        for reason in certificate.reasons:
            echo(f"  {reason}")


@app.command()
def dossier(
    where: WhereArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, a new .html file.")],
    ledger: _ChargedLedger = None,
    public: _PublicTables = None,
    key: _Signers = None,
    as_json: AsJson = False,
) -> None:
    """Write a page on what a certificate holds for the GDPR, NIST, ISO/IEC 27559 and the EHDS.

    ```
    jam-dagster certificate dossier release --out dossier.html --ledger ledger.db
    ```

    The certificate is verified first. The page has the questions of the frameworks, what the
    certificate holds on each, and what a person must write. With the ledger it names who granted
    and approved, and with `--public` the public table. It assesses nothing by itself: it is an
    annex to a data protection impact assessment.
    """
    from jam_dagster.certificates.signing import read_public
    from jam_dagster.common.files import write_whole
    from jam_dagster.privacy import Ledger
    from jam_dagster.reports.dossier import render_dossier

    if out.suffix != ".html":
        raise InputError(f"--out {out} must end in .html.")
    if out.exists():
        raise InputError(f"--out {out} is there already, and somebody may have written into it.")
    page = render_dossier(
        _path(where),
        ledger=None if ledger is None else Ledger(ledger),
        public=public_source(public) if public else None,
        signing_keys=[read_public(one) for one in key or ()],
    )
    write_whole(out, page.encode())
    print_result(
        {"file": str(out)}, f"{out}: the dossier, for a person to complete.", as_json=as_json
    )


@app.command()
def withdraw(
    where: WhereArgument,
    ledger: Annotated[
        str, typer.Option(metavar="FILE", help="The ledger that was charged: a file or a URL.")
    ],
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Written in the journal, and shown to who verifies it."),
    ],
    as_json: AsJson = False,
) -> None:
    r"""Withdraw a certificate: from now on it fails to verify with its ledger.

    ```
    jam-dagster certificate withdraw release --ledger ledger.db \
        --reason "the public table was not public"
    ```

    It holds for every certificate of that release. A release that is repeated for nothing says
    that it was withdrawn and does not count as releasable. It undoes no publication, and the
    budget stays spent.
    """
    from jam_dagster.certificates import Certificate
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    certificate = Certificate.load(_path(where))
    if certificate.standing is None:
        raise InputError("No ledger was charged for this release: nothing knows of its certificate")
    # The digest of a certificate whose domain nothing paid for stays out of the journal.
    restricted = certificate.domain.restricted
    digest = certificate.release_id.digest if restricted else certificate.digest
    event = Ledger(ledger).withdraw(certificate.release_id, digest, reason=reason)
    print_result(
        event_in_json(event),
        f"The certificate {certificate.digest[:12]} of the {certificate.release_id} of "
        f"{event.dataset} was withdrawn on {event.at[:10]}: {event.reason}",
        as_json=as_json,
    )


def _path(where: str) -> Path | UPath:
    if "://" not in where:
        return Path(where)
    from upath import UPath

    return UPath(where)
