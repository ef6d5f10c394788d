"""A dossier: what a certificate holds on the questions of three frameworks, and what it does not.

The template `dossier_questions.html` has the sentences. Their facts follow from the certificate and
from files that have the hashes in it. Clauses are named by number and title alone. A question that
no certificate can answer is left to a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, verify
from jam_dagster.certificates.held import Held
from jam_dagster.certificates.verification import releasable_certificate
from jam_dagster.common.html_pages import environment
from jam_dagster.errors import InputError
from jam_dagster.evaluation.verdict import mean_text
from jam_dagster.evaluation.workload_error import CONFIDENCE, TableErrors, WorkloadErrors
from jam_dagster.privacy import (
    describe_advantage,
    describe_certainty,
    epsilon_from_rho,
    rho_within,
)
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS
from jam_dagster.privacy.shares import MECHANISM

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.certificates import Finding
    from jam_dagster.certificates.facts import Standing
    from jam_dagster.privacy import Ledger
    from jam_dagster.tables import Domain, PublicSources, Source

_VALUES_SHOWN = 8


def render_dossier(
    path: Path | UPath,
    *,
    ledger: Ledger | None = None,
    public: Source | PublicSources | None = None,
    signing_keys: Collection[str] = (),
) -> str:
    """Verify a certificate, and render its dossier as one HTML page without network and scripts.

    `path` is the certificate, or its folder; `ledger`, `public` and `signing_keys` verify it, see
    `jam_dagster.certificates.verify`. An InputError says if its release may not leave, or it does
    not verify.
    """
    certificate = releasable_certificate(path)
    findings = verify(path, ledger=ledger, public=public, signing_keys=signing_keys)
    if failed := [one for one in findings if not one.passed]:
        raise InputError(
            f"the certificate does not verify: {failed[0].name}: {failed[0].message}. A dossier is"
            " written of one that does."
        )
    held = Held(certificate, path if path.is_dir() else path.parent, {}, public)
    return dossier_page(
        certificate, held.domain, held.errors, findings=findings, compared=ledger is not None
    )


def dossier_page(
    certificate: Certificate,
    domain: Domain,
    errors: Mapping[str, Any] | None,
    *,
    findings: Collection[Finding],
    compared: bool,
) -> str:
    """Render the dossier of a certificate that was verified, with its ledger if `compared`.

    `domain` and `errors` are the contents of the release's files.
    """
    template = environment("jam_dagster.reports").get_template("dossier.html")
    return template.render(
        certificate=certificate,
        document=certificate.to_dict(),
        facts=_facts(certificate, domain, errors),
        verified=datetime.now(UTC).date(),
        compared=compared,
        findings=findings,
    )


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """The fields of the sentences, next to those of the certificate.

    `rho` was asked for, and `square` is 1 / n² if n is above 0. `columns` have a name, a kind and
    values; they are of two tables if `children` is the name of one. `draws` are the number of each
    kind, and `sigmas` the least and the largest noise of a measured count. The errors are texts
    with their margins, empty if not measured. `reasons` are of the certificate's conditions.
    """

    rho: float
    square: float | None
    advantage: str
    certainty: str
    columns: tuple[tuple[str, str, str], ...]
    children: str
    draws: tuple[tuple[str, int], ...]
    sigmas: tuple[float, float] | None
    error: str
    public_error: str
    sample_equivalent: int | None
    confidence: float
    degree: int | None
    spending: _Spending | None
    reasons: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class _Spending:
    """A dataset's budget and spending, as epsilon at its delta.

    `granted` and `spent` are those of `period`, `lifetime` those since the beginning; the period is
    empty if the budget does not renew. `ground` is empty if the spending of all partitions adds up.
    """

    granted: float
    spent: float
    lifetime: float
    delta: float
    period: str
    ground: str


def _facts(certificate: Certificate, domain: Domain, content: Mapping[str, Any] | None) -> _Facts:
    asked = certificate.asked.budget
    # A measured number of records may be 0 or less.
    square = 1 / certificate.records**2 if certificate.records > 0 else None
    kinds = Counter(draw.call.kind for draw in certificate.draws)
    errors = _errors(content)
    ours, others = (errors.synthetic, errors.public) if errors else (None, None)
    children = domain.children
    return _Facts(
        rho=asked.rho,
        square=square,
        advantage=describe_advantage(asked),
        certainty=describe_certainty(asked),
        columns=(*_columns(domain.roots), *(_columns(children.domain) if children else ())),
        children=children.link.table if children else "",
        draws=tuple(sorted(kinds.items())),
        sigmas=_sigmas(certificate),
        error=mean_text(ours, errors.margin) if errors and ours else "",
        public_error=mean_text(others, errors.margin) if errors and others else "",
        sample_equivalent=errors.sample_equivalent if errors else None,
        confidence=CONFIDENCE,
        degree=certificate.specification["workload"].get("degree"),
        spending=None if certificate.standing is None else _spending(certificate.standing),
        reasons={one.condition: one.because for one in certificate.conditions},
    )


def _columns(domain: Domain) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and values of each column of a published table."""
    computed = {one.name: one.described for one in domain.derived}
    for name in domain.columns:
        if name in computed:
            yield name, "computed", computed[name]
        else:
            one = domain.attribute(name)
            yield name, one.kind_text, one.values_text(_VALUES_SHOWN)


def _sigmas(certificate: Certificate) -> tuple[float, float] | None:
    """Return the least and the largest standard deviation of a measured count, if there is one."""
    sigmas = [
        draw.call.scale
        for draw in certificate.draws
        if draw.call.kind == COUNTS
        and draw.share == MECHANISM
        and draw.call.subject != RECORDS
        and draw.call.scale is not None
    ]
    return (min(sigmas), max(sigmas)) if sigmas else None


def _errors(content: Mapping[str, Any] | None) -> WorkloadErrors | None:
    """Return the noisy errors of a release's file, which its verification has compared."""
    if content is None:
        return None
    ours, others = (
        TableErrors(content[name]["mean"]) if content.get(name) else None
        for name in ("synthetic", "public")
    )
    return WorkloadErrors(
        "private",
        ours,
        others,
        sigma=content["sigma"],
        sample_equivalent=content.get("sample_equivalent"),
    )


def _spending(standing: Standing) -> _Spending:
    totals = standing.totals
    policy, delta = totals["policy"], totals["delta"]
    renews = policy["period"] != "lifetime"

    def epsilon(name: str) -> float:
        return epsilon_from_rho(rho_within(totals[name]), delta)

    return _Spending(
        granted=epsilon("granted_units"),
        spent=epsilon("spent_units"),
        lifetime=epsilon("lifetime_spent_units" if renews else "spent_units"),
        delta=delta,
        period=totals["period"] if renews else "",
        ground="" if policy["partitions"] == "add" else policy["ground"],
    )
