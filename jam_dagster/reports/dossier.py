"""A dossier: what a certificate holds on the questions of three frameworks, and what it does not.

The sentences follow from the certificate and from files that have the hashes in it. Clauses are
named by number and title alone. A question that no certificate can answer is left to a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, verify
from jam_dagster.certificates.held import Held
from jam_dagster.certificates.verification import releasable_certificate
from jam_dagster.common.html_pages import environment, figures
from jam_dagster.errors import InputError
from jam_dagster.evaluation.verdict import mean_text
from jam_dagster.evaluation.workload_error import CONFIDENCE, TableErrors, WorkloadErrors
from jam_dagster.privacy import (
    Budget,
    describe_advantage,
    describe_certainty,
    epsilon_from_rho,
    rho_within,
)
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS
from jam_dagster.privacy.shares import EVALUATION

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.privacy import Ledger
    from jam_dagster.tables import Domain, PublicSources, Source

_VALUES_SHOWN = 8
_DOMAIN = "The domain owes nothing to private data"


@dataclass(frozen=True)
class Row:
    """A question, what the certificate holds on it, and what a person writes."""

    question: str
    holds: str
    write: str = ""


@dataclass(frozen=True)
class Part:
    """The questions of one framework."""

    key: str
    title: str
    about: str
    rows: tuple[Row, ...]


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
    domain = held.domain
    parts = _Facts(certificate, domain, _errors(held.errors)).parts
    template = environment("jam_dagster.reports").get_template("dossier.html")
    return template.render(
        certificate=certificate,
        document=certificate.to_dict(),
        verified=datetime.now(UTC).date(),
        compared=ledger is not None,
        findings=findings,
        parts=parts,
        to_write=sum(bool(row.write) for part in parts for row in part.rows),
        columns=[row for one in _tables(domain) for row in _columns(one)],
    )


def _tables(domain: Domain) -> list[Domain]:
    """Return the domain of each published table."""
    return [domain.roots, *([] if domain.children is None else [domain.children.domain])]


def _columns(domain: Domain) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and values of each column of a published table."""
    computed = {one.name: one.described for one in domain.derived}
    for name in domain.columns:
        if name in computed:
            yield name, "computed", computed[name]
        else:
            one = domain.attribute(name)
            yield name, one.kind_text, one.values_text(_VALUES_SHOWN)


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


@dataclass(frozen=True)
class _Facts:
    """The facts that sentences quote."""

    certificate: Certificate
    domain: Domain
    errors: WorkloadErrors | None

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self._nist(), self._iso(), self._ehds())

    @property
    def _epsilon(self) -> str:
        asked = self.certificate.asked
        return f"epsilon = {figures(asked.epsilon)} at delta = {figures(asked.delta)}"

    @cached_property
    def _budget_asked(self) -> Budget:
        asked = self.certificate.asked
        return Budget(asked.epsilon, asked.delta)

    @property
    def _parameters(self) -> str:
        one = self.certificate
        rho = self._budget_asked.rho
        said = (
            f"{self._epsilon}. It was accounted for in zero-concentrated differential privacy, of"
            f" which rho = {figures(one.rho_spent)} of {figures(rho)} was spent and converted once."
        )
        # A measured number of records may be 0 or less.
        if one.records > 0:
            square = 1 / one.records**2
            below = "at most" if one.asked.delta <= square else "above"
            said += (
                f" Delta is {below} 1 / n² = {figures(square, 2)}, for the n that the certificate"
                " states."
            )
        return said

    @property
    def _one(self) -> str:
        return "person" if self.domain.children is None else "record"

    @property
    def _unit(self) -> str:
        one = self.certificate.neighbours
        if one.records_public:
            kind = (
                "bounded: neighbouring tables have equally many records, and their number is public"
            )
        elif one.relation == "replace_one":
            kind = (
                "bounded: neighbouring tables are about equally many people, and the number of"
                " records is protected"
            )
        else:
            kind = (
                f"unbounded: neighbouring tables differ by one {self._one} more or less, and the"
                " number of records is protected"
            )
        rows = "Each record is taken to be one person's own."
        if one.max_rows > 1:
            rows = f"A person has at most {one.max_rows} rows in what was counted."
        if self.domain.children is not None:
            link = self.domain.children.link
            rows = f"A record is a row with all its rows of {link.table}."
        return f"{one.describe().capitalize()} ({kind}). {rows}"

    @property
    def _draws(self) -> str:
        kinds = Counter(draw.call.kind for draw in self.certificate.draws)
        return ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))

    @property
    def _noise(self) -> str:
        sigmas = [
            draw.call.scale
            for draw in self.certificate.draws
            if draw.call.kind == COUNTS
            and draw.share != EVALUATION
            and draw.call.subject != RECORDS
            and draw.call.scale is not None
        ]
        if not sigmas:
            return "No count was measured with noise."
        low, high = figures(min(sigmas), 3), figures(max(sigmas), 3)
        between = low if low == high else f"{low} to {high}"
        return (
            f"The noise of a measured count has a standard deviation of {between} records, whether"
            " the group is large or small, so small groups have the larger relative error."
        )

    @property
    def _utility(self) -> str:
        errors = self.errors
        if errors is None or errors.synthetic is None:
            return "The certificate holds no measured error."
        said = (
            f"The mean error over the workload{self._workload}, from 0 to 2, was measured with"
            f" noise that the budget paid for: {mean_text(errors.synthetic, errors.margin)}"
            f" (confidence {CONFIDENCE:.0%})."
        )
        if errors.public is not None:
            said += f" The public table has {mean_text(errors.public, errors.margin)}."
        if errors.sample_equivalent:
            said += (
                f" A random sample of {errors.sample_equivalent:,} private records would err as"
                " much."
            )
        return said

    @property
    def _workload(self) -> str:
        degree = self.certificate.specification["workload"].get("degree")
        return "" if degree is None else f" of all marginals of {degree} columns"

    @property
    def _budget(self) -> str:
        standing = self.certificate.standing
        if standing is None:
            return "No ledger was charged."
        totals = standing.totals
        spent, granted = (
            figures(epsilon_from_rho(rho_within(totals[f"{name}_units"]), totals["delta"]))
            for name in ("spent", "granted")
        )
        policy, when = totals["policy"], ""
        within = "over its lifetime"
        if policy["period"] != "lifetime":
            within = f"in {totals['period']}"
            whole = rho_within(totals["lifetime_spent_units"])
            spent += f" of it, and epsilon = {figures(epsilon_from_rho(whole, totals['delta']))}"
            when = " over its lifetime"
        said = (
            f"The ledger grants the dataset {self.certificate.release_id.dataset} epsilon = "
            f"{granted} {within}, at delta = {figures(totals['delta'])}. All its releases together "
            f"had spent epsilon = {spent}{when} when the certificate was issued."
        )
        if policy["partitions"] != "add":
            said += (
                " Only the partition from which most was released counts, on the ground:"
                f" {policy['ground']}."
            )
        return said

    @property
    def _reasons(self) -> Mapping[str, str]:
        return {one.condition: one.because for one in self.certificate.conditions}

    @property
    def _records(self) -> str:
        one = self.certificate
        how = "public and exact" if one.neighbours.records_public else "measured with noise"
        rows = f", at most {most} of a person" if (most := one.neighbours.max_rows) > 1 else ""
        return (
            f"{one.records:,} records of the private table count{rows} (the number is {how}). The"
            f" synthetic table has {one.sampling.rows:,}."
        )

    @property
    def _columns(self) -> str:
        numbers = [len(one.columns) for one in _tables(self.domain)]
        kind = "A synthetic table" if len(numbers) == 1 else "Two synthetic tables"
        return f"{kind} of {sum(numbers)} columns, which are below. {self._reasons[_DOMAIN]}"

    @property
    def _signed(self) -> str:
        signed = self.certificate.signature is not None
        return "The certificate is signed." if signed else "The certificate is not signed."

    def _nist(self) -> Part:
        one = self.certificate
        return Part(
            "nist",
            "NIST SP 800-226",
            "Guidelines for Evaluating Differential Privacy Guarantees, March 2025. The factors of"
            " its pyramid, from the top down: each rests on those below it.",
            (
                Row(
                    "Top: privacy parameters",
                    self._parameters,
                    "Why these parameters are acceptable for these people, and who decided it.",
                ),
                Row(
                    "Top: unit of privacy",
                    self._unit,
                    "Whether one person can be in the table under several identities, or a row is"
                    " about several people.",
                ),
                Row(
                    "Top: other releases of the same data",
                    f"{self._budget} Releases that are in no ledger are not counted.",
                    "Every other publication about these people, differentially private or not.",
                ),
                Row(
                    "Middle: algorithms and correctness",
                    f"The mechanism {one.mechanism} made {len(one.draws)} draws: {self._draws}."
                    " The certificate states sensitivity, scale and cost of each, and lists every"
                    f" charge. {self._reasons['Every draw was charged']}",
                    "Who reviewed the software, other than its authors.",
                ),
                Row(
                    "Middle: settings and preprocessing",
                    f"{self._reasons[_DOMAIN]}"
                    f" {self._reasons['No setting comes from private data']}",
                    "That nobody looked at the private table to choose epsilon, settings, columns"
                    " or bins, and how the table was prepared before.",
                ),
                Row(
                    "Middle: public data",
                    "The guarantee does not protect a public table from which the release learned,"
                    " and rows of it may be in the synthetic table.",
                    "The origin of the public table, if there was one, and why it is public.",
                ),
                Row(
                    "Middle: utility",
                    self._utility,
                    "The uses for which this is good enough, and those for which it is not.",
                ),
                Row(
                    "Middle: bias",
                    self._noise,
                    "Which small groups matter, and what a wrong number about them could do.",
                ),
                Row(
                    "Bottom: query model",
                    "Data release: the run made all its draws, and nobody can ask the private table"
                    " anything more through what it released.",
                ),
                Row(
                    "Bottom: trust model",
                    "Central: the process that made the release read the private table. Readers of"
                    " the release are not trusted.",
                    "Who runs that process, and why the people in the table can trust them.",
                ),
                Row(
                    "Bottom: security and access control",
                    f"The certificate has the SHA-256 of {len(one.files)} released files."
                    f" {self._signed}",
                    "Who can read the private table, the ledger and the private store, and how that"
                    " is controlled.",
                ),
                Row(
                    "Bottom: side channels",
                    f"{self._reasons['The noise is exact and unseeded']} OpenDP"
                    f" {one.made_with['opendp']} drew it. The guarantee does not cover how long a"
                    " run takes, or anything else that is seen on the machine.",
                    "Who could observe the run.",
                ),
                Row(
                    "Bottom: data collection exposure",
                    "",
                    "Whether more was collected about these people than is needed, and when it is"
                    " deleted.",
                ),
            ),
        )

    def _iso(self) -> Part:
        one = self.certificate
        return Part(
            "iso",
            "ISO/IEC 27559:2022, clauses 6 to 9",
            "Privacy enhancing data de-identification framework.",
            (
                Row(
                    "6.2.2 Security and privacy practices",
                    "The guarantee needs no control on the side of recipients.",
                    "Who receives the table, and under which terms.",
                ),
                Row(
                    "6.2.3 Motives and capacity to re-identify",
                    "The guarantee holds for every motive, computing power and other knowledge.",
                ),
                Row(
                    "6.3.2 Transparency of actions and stakeholder engagement",
                    "The certificate, with every draw and charge, can be published with the table.",
                    "How the people in the table are informed.",
                ),
                Row(
                    "6.3.3 Privacy-related harms",
                    "The guarantee bounds what is learned about one person because of that person's"
                    " data. It does not prevent conclusions about groups.",
                    "Harms that a conclusion about a group could do, and why they are acceptable.",
                ),
                Row(
                    "7.2.2 Data principals",
                    f"The ledger calls these people {one.release_id.dataset}. {self._unit}",
                    "Who these people are, and whether some of them need special protection.",
                ),
                Row("7.2.3 Data type", self._columns),
                Row(
                    "7.2.4 Attribute types",
                    "The kind and the values of each column are below.",
                    "Which columns identify a person, alone or together, and which are sensitive.",
                ),
                Row(
                    "7.2.5 Dataset properties",
                    self._records,
                    "Whether the table is a sample or a whole population, and when it was made.",
                ),
                Row(
                    "7.3.2 Maximum or average risk",
                    "Maximum: the bound holds for each person, also for the most unusual one.",
                ),
                Row(
                    "7.3.3 Population or sample-based attack",
                    "The bound holds for an attacker who knows that a person is in the table, and"
                    " the records of all others.",
                ),
                Row(
                    "7.3.4 Data privacy models",
                    f"Differential privacy, {self._epsilon}, by zero-concentrated differential"
                    " privacy.",
                ),
                Row(
                    "8.2.2 Quantifying identifiability",
                    f"An attacker who knows two tables that differ by one {self._one} names one of"
                    f" them at most {describe_advantage(self._budget_asked)} more often if the"
                    " release was made from it than if it was not. If both were equally likely"
                    f" before, the true one is at most {describe_certainty(self._budget_asked)}"
                    " likely after, except with probability delta.",
                    "The threshold that applies here, and its source.",
                ),
                Row(
                    "8.2.3 Adversarial testing",
                    "The certificate holds no attack on this release.",
                    "Whether one is required, and its result.",
                ),
                Row(
                    "8.3.2 Reconfiguring the environment",
                    "",
                    "Whether the table is published, or given to some under terms.",
                ),
                Row(
                    "8.3.3 Transforming the data",
                    f"No row was copied from the private table: {one.sampling.rows:,} rows were"
                    f" sampled from a model that the mechanism {one.mechanism} fitted to noisy"
                    " counts, and to public data if there were any. A row may resemble a real"
                    " person by chance.",
                ),
                Row(
                    "8.3.4 Re-evaluation",
                    "A further release about these people is charged to the same budget, and needs"
                    " another certificate.",
                    "When and by whom this assessment is repeated.",
                ),
                Row(
                    "9.2.2 Assigning roles and responsibilities",
                    self._signed,
                    "Who granted the budget, who made the release, who answers for it.",
                ),
                Row(
                    "9.2.3 Establishing principles, policies and procedures",
                    self._budget,
                    "The policy from which this grant follows.",
                ),
                Row(
                    "9.2.4 Identifying and managing a data disclosure",
                    "",
                    "How a disclosure would be noticed, and who acts.",
                ),
                Row(
                    "9.2.5 Communicating with stakeholders",
                    "",
                    "Whom readers of the table can ask.",
                ),
                Row(
                    "9.3.2 Monitoring the data environment",
                    "The guarantee does not weaken if other data become known. The ledger keeps the"
                    " sum of what was released about these people.",
                    "Who watches the ledger.",
                ),
                Row(
                    "9.4 Mitigation in case of incident",
                    "The certificate can be withdrawn, and then fails to verify with its ledger. A"
                    " copy of the table that has left cannot be recalled.",
                    "The reaction if the public table was not public, or a setting came from the"
                    " private table.",
                ),
            ),
        )

    def _ehds(self) -> Part:
        return Part(
            "ehds",
            "European Health Data Space, Regulation (EU) 2025/327",
            "Questions that a health data access body may have about a table for secondary use.",
            (
                Row(
                    "Article 53: purpose of the secondary use",
                    "",
                    "The purpose, and why it is one of those of the Article.",
                ),
                Row("Article 54: prohibited uses", "", "That no use is one of these."),
                Row(
                    "Article 66: data minimisation",
                    self._columns,
                    "Why each column is necessary for the purpose.",
                ),
                Row(
                    "Article 66: anonymised format",
                    f"The table is differentially private with {self._epsilon}. {self._unit}"
                    " A certificate bounds what is learned about a person; it makes no legal"
                    " assessment.",
                    "The legal assessment of whether the table is anonymous.",
                ),
                Row(
                    "Article 67: data, format and sources",
                    self._records,
                    "The sources of the private table, its period and region, and who holds it.",
                ),
                Row(
                    "Article 67: safeguards against another use",
                    "The guarantee holds for every later use of the table.",
                    "Terms of use, and other safeguards.",
                ),
                Row(
                    "Article 69: answers in statistical form",
                    "The noisy counts that the release measured are part of it, and can be given in"
                    " place of rows (jam-dagster export marginals).",
                ),
                Row(
                    "Article 61: no re-identification",
                    "The bound of 8.2.2 above holds whatever a reader tries.",
                    "The duty not to re-identify, in the terms of use.",
                ),
                Row(
                    "Article 71: right to opt out",
                    "The certificate does not say who is in the private table.",
                    "That people who opted out were removed before the release.",
                ),
                Row(
                    "Article 73: secure processing environment",
                    "The certificate does not say where the release was made.",
                    "Where the private table was processed.",
                ),
                Row(
                    "Article 78: data quality and utility",
                    self._utility,
                    "The label of the source dataset, if it has one.",
                ),
                Row(
                    "Recital 73: stigmatisation and dignity",
                    "The guarantee does not prevent conclusions about groups.",
                    "An ethical assessment, if one is required.",
                ),
            ),
        )
