"""A dossier: what a certificate holds on the questions of frameworks, and what it does not.

The templates `dossier_questions.html` and `dossier_people.html` have the sentences. Their facts
follow from the certificate, from files that have the hashes in it, and from the ledger that was
charged. Clauses are named by number and title alone. A question that no certificate can answer is
left to a person.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from jam_dagster.privacy.disclosure import (
    BY_CHANCE,
    ERROR,
    detected_count,
    hidden_group,
    learnt_bits,
    singled_out,
    surest_guess,
    surest_link,
)
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.reports.mechanism_text import learns_from_public
from jam_dagster.tables.sources.public import tables_of

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.certificates import Finding
    from jam_dagster.certificates.facts import Standing
    from jam_dagster.privacy import Event, Ledger
    from jam_dagster.privacy.ledger.decisions import Decision
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
        certificate,
        held.domain,
        held.errors,
        findings=findings,
        public=[one.describe() for one in tables_of(public).values()],
        journal=None if ledger is None else ledger.events(),
    )


def dossier_page(
    certificate: Certificate,
    domain: Domain,
    errors: Mapping[str, Any] | None,
    *,
    findings: Collection[Finding],
    public: Sequence[str] = (),
    journal: Sequence[Event] | None = None,
) -> str:
    """Render the dossier of a certificate that was verified, with its ledger's journal or without.

    `domain` and `errors` are the contents of the release's files, `public` names the public tables
    that the verification was given.
    """
    template = environment("jam_dagster.reports").get_template("dossier.html")
    return template.render(
        certificate=certificate,
        document=certificate.to_dict(),
        facts=_facts(certificate, domain, errors),
        risks=_risks(certificate, domain),
        public=_public(certificate, public, findings),
        decided=None if journal is None else _decided(certificate, journal),
        verified=datetime.now(UTC).date(),
        compared=journal is not None,
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


@dataclass(frozen=True, kw_only=True)
class _Public:
    """Whether the mechanism learned from public data, and which tables the verification had.

    `repeated` is whether the run was repeated with them, and `before` the release that took the
    place of a public table, if one did.
    """

    learned: bool
    tables: Sequence[str]
    repeated: bool
    before: str


def _public(
    certificate: Certificate, tables: Sequence[str], findings: Collection[Finding]
) -> _Public:
    made = {one.name: one.checked for one in findings}
    before = certificate.drawn_on
    return _Public(
        learned=learns_from_public(certificate.mechanism, certificate.parameters),
        tables=tables,
        repeated=made.get("the draws", False) and made.get("the model, refitted", False),
        before=str(before[0]) if before else "",
    )


@dataclass(frozen=True, kw_only=True)
class _Decided:
    """Decisions on the budget and the release: all, and those in force when it reserved.

    `made_by` is the account that reserved, and `needed` whether releases waited for approval.
    """

    rows: Sequence[Decision]
    grant: Decision | None
    approval: Decision | None
    needed: bool
    made_by: str


def _decided(certificate: Certificate, journal: Iterable[Event]) -> _Decided:
    # The ledger's classes bring SQLAlchemy, and a dossier without a ledger needs none of them.
    from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
    from jam_dagster.privacy.ledger.decisions import decisions
    from jam_dagster.privacy.ledger.journal import Kind
    from jam_dagster.privacy.ledger.policy import REQUIRED

    release_id, events = certificate.release_id, list(journal)
    own = {release_id, replace(release_id, partition=ALL_PARTITIONS)}
    key = certificate.signature.key if certificate.signature else ""
    rows = [
        one
        for one in decisions(events)
        if one.event.release_id in own
        or (one.event.release_id is None and one.event.dataset == release_id.dataset)
        or (key and one.event.digest == key)
    ]
    reserved = [one for one in events if one.release_id == release_id and one.kind == Kind.RESERVED]
    before = reserved[0].seq if reserved else math.inf
    earlier = [one for one in rows if one.event.seq < before]
    grant = next((one for one in reversed(earlier) if one.event.kind == Kind.GRANTED), None)
    approval = next((one for one in reversed(earlier) if one.event.kind == Kind.APPROVED), None)
    return _Decided(
        rows=rows,
        grant=grant,
        approval=approval,
        needed=grant is not None and grant.event.approval == REQUIRED,
        made_by=reserved[0].by if reserved else "",
    )


@dataclass(frozen=True, kw_only=True)
class _Risks:
    """Figures that the budget bounds, as texts; `jam_dagster.privacy.disclosure` has the formulas.

    `guesses` are how likely values were and may become. `apart` are counts that the least and the
    largest noise leave apart from 0, empty without measured counts; `within` bounds that noise in
    19 of 20 cells. `hidden` people are not known from nobody. `people` is how many another value
    takes out or adds.
    """

    by_chance: str
    singled_out: str
    link: str
    links: str
    guesses: tuple[tuple[str, str], ...]
    people: int
    within: tuple[str, ...]
    apart: tuple[int, ...]
    error: str
    hidden: int
    bits: str
    record: str
    part: str


_PRIORS = (0.01, 0.1, 0.5)


def _risks(certificate: Certificate, domain: Domain) -> _Risks:
    budget, neighbours = certificate.asked.budget, certificate.neighbours
    people = 1 if neighbours.relation == "replace_one" else 2
    standing, links = certificate.standing, ""
    if standing is not None:
        renews = standing.totals["policy"]["period"] != "lifetime"
        units = standing.totals["lifetime_spent_units" if renews else "spent_units"]
        links = _percent(surest_link(rho_within(units), budget.selections))
    sigmas = sorted(set(_sigmas(certificate) or ()))
    bits, record = learnt_bits(budget.rho), sum(math.log2(size) for size in domain.shape)
    return _Risks(
        by_chance=_percent(BY_CHANCE),
        singled_out=_percent(singled_out(budget, certificate.records)),
        link=_percent(surest_link(budget.rho, budget.selections)),
        links=links,
        guesses=tuple(
            (_percent(prior), _percent(surest_guess(budget, prior, people=people)))
            for prior in _PRIORS
        ),
        people=people,
        within=tuple(f"{1.96 * one:.3g}" for one in sigmas),
        apart=tuple(sorted({detected_count(one) for one in sigmas})),
        error=_percent(ERROR),
        hidden=hidden_group(budget.rho),
        bits=f"{bits:.3g}",
        record=f"{record:.3g}",
        part=_percent(min(1.0, bits / record)) if record else "",
    )


def _percent(share: float) -> str:
    """Return a share of at most 1 in three figures, rounded up unless they have it."""
    percent = 100.0 * share
    step = 10.0 ** (math.floor(math.log10(percent)) - 2)
    return f"{min(100.0, math.ceil(percent / step * (1.0 - 1e-12)) * step):.3g}%"
