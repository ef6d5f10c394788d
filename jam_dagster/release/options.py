"""What a release is asked to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation import EvaluationMode
from jam_dagster.mechanisms import DEFAULT_MECHANISM, MECHANISMS
from jam_dagster.mechanisms.configuration import check_public, configured_mechanism
from jam_dagster.mechanisms.trust import distrust
from jam_dagster.privacy import EVALUATION_SHARE, RECORDS_SHARE, Budget, NoiseName, Protection
from jam_dagster.privacy.ledger.key import specification_of
from jam_dagster.tables import PrivacyUnit, PublicSources, check_not_split
from jam_dagster.tables.sources.identity import place_of
from jam_dagster.tables.sources.public_apart import check_apart, check_outside, restricted_folders

if TYPE_CHECKING:
    from jam_dagster.mechanisms import Mechanism
    from jam_dagster.privacy.sensitivity import Relation
    from jam_dagster.tables import Domain, Source


@dataclass(frozen=True, kw_only=True)
class SynthesisRequest:
    """Everything that `synthesize` needs to know.

    Parameters
    ----------
    private, public
        The tables: raw values, or codes where `domain` is the papers' ``{"attribute": size}``.
        There may be several public ones, and such that lack attributes: see `PublicSources`; or
        none, where the mechanism does without and the domain is given.
    out
        The folder for what is made.
    epsilon, delta
        The privacy budget of the whole release.
    domain
        A domain, or its file; None drafts the domain from the public table.
    mechanism, settings
        The mechanism, one of `jam_dagster.mechanisms.MECHANISMS`, and what differs from its own
        defaults; numbers may be texts.
    trusted_mechanisms
        The packages whose mechanisms the release trusts, by name. Nothing made by a mechanism of
        another package may leave.
    degree
        The workload is all marginals of this many attributes.
    seed
        Of research: of its noise and its sampling. A release has no seed: its noise is exact, and
        its sampling follows from the measurements.
    noise
        ``"exact"`` noise, charged to `ledger`, makes a release; ``"numpy"`` is seeded, charges
        nothing, and what it makes may not leave.
    evaluate
        How the errors are measured on the private table: ``"exact"``, ``"private"`` (with noise,
        charged) or ``"off"``. None means ``"private"`` for a release, whose exact errors must be
        asked for, and ``"exact"`` for research.
    evaluation_share
        The part of the budget that pays private evaluation; None means 5%.
    ledger, dataset
        The ledger, a file or a SQLAlchemy URL, and the protected dataset that pays.
    private_store
        The folder of the secret by which sources are bound, its owner's alone. None: beside the
        ledger's file, or, where the ledger is on a server, in the user's own data folder.
    release
        What the ledger calls this release; None takes the name of `out`.
    edition
        A new edition of a release is drawn, and paid, anew.
    neighbours
        ``"replace_one"``: a person's rows can hardly be told from another person's;
        ``"add_remove"``: nor whether a person is in the table at all.
    privacy_unit
        The column of the private table that identifies a person; None: every record is a person.
    max_rows
        The most rows of one person that are kept; None means 1.
    records_share
        The part of the mechanism's budget that measures the number of private rows, where that is
        private; None means 5%.
    retention_days
        For how many days after the release has ended its restricted files are kept; None: until
        somebody removes them. ``jam-dagster private remove --due`` removes them then.
    checks
        Whether to check the synthetic table against its domain and the measurements; None checks
        that of a release and not that of research.
    report
        Whether to write the report; None writes one of a release and none of research.
    signing_key
        The file of the private key that signs the certificate of a release, or the key as PEM
        text. None takes what the environment has as ``JAM_SIGNING_KEY``, if anything.
    """

    private: Source
    public: Source | PublicSources | None = None
    out: Path
    epsilon: float
    delta: float = 1e-9
    domain: Domain | Path | None = None
    mechanism: str = DEFAULT_MECHANISM
    settings: Mapping[str, Any] = field(default_factory=dict)
    trusted_mechanisms: Collection[str] = ()
    degree: int = 3
    seed: int = 0
    noise: NoiseName = "exact"
    evaluate: EvaluationMode | None = None
    evaluation_share: float | None = None
    ledger: str | None = None
    dataset: str | None = None
    private_store: Path | None = None
    release: str | None = None
    edition: str = "1"
    neighbours: Relation = "replace_one"
    privacy_unit: str | None = None
    max_rows: int | None = None
    records_share: float | None = None
    retention_days: int | None = None
    checks: bool | None = None
    report: bool | None = None
    signing_key: str | None = field(default=None, repr=False)

    def validate(self) -> None:
        """Check everything that can be checked before a table is read.

        Raises
        ------
        SpecificationError
            Naming the parameter, what it was, and what it may be.
        """
        # Both check their own parameters, and so does the division of the budget.
        check_public(self.made_mechanism(), self.public, declared=self.domain is not None)
        self._check_trust()
        self.shares()
        self._check_protection()
        check_apart(self.private, self.public)
        folders = [place_of(str(self.out / "restricted")), *restricted_folders(self.public)]
        check_outside(self.public, folders, "a release's folder for what may not leave")
        if self.degree < 1:
            raise SpecificationError(f"degree must be at least 1, got {self.degree}.")
        if self.retention_days is not None and self.retention_days < 0:
            raise SpecificationError(
                f"retention_days must be 0 or more, got {self.retention_days}."
            )
        if self.seed < 0:
            raise SpecificationError(f"seed must be 0 or more, got {self.seed}.")
        told = {
            "noise": (self.noise, get_args(NoiseName)),
            "evaluate": (self.evaluation_mode, get_args(EvaluationMode)),
        }
        for name, (value, choices) in told.items():
            if value not in choices:
                raise SpecificationError(
                    f"{name} must be one of {', '.join(choices)}, got {value!r}."
                )
        if self.evaluation_share is not None:
            if self.evaluation_mode != "private":
                raise SpecificationError(
                    f"evaluation_share pays for private evaluation, which this is not: drop it, "
                    f"or evaluate 'private' instead of {self.evaluation_mode!r}."
                )
            if self.evaluation_share == 0:
                raise SpecificationError(
                    "evaluation_share must be more than 0: private evaluation is paid from it."
                )
        if self.noise == "exact" and not (self.ledger and self.dataset):
            raise SpecificationError(
                "Exact noise makes a release, and a release is charged: give a ledger and the "
                "dataset that pays (--ledger FILE, --dataset ID), or experiment for free with "
                "seeded noise (--noise numpy)."
            )

    def _check_trust(self) -> None:
        reason = distrust(self.mechanism, self.trusted_mechanisms)
        if self.noise == "exact" and reason is not None:
            package = MECHANISMS[self.mechanism].package
            raise SpecificationError(
                f"Nothing made with it may leave, whatever is paid: {reason}. Give "
                f"--trust-mechanism {package} once somebody has read it, or experiment for free "
                "with --noise numpy."
            )

    def _check_protection(self) -> None:
        if self.max_rows is not None and self.privacy_unit is None:
            raise SpecificationError(
                f"max_rows = {self.max_rows} limits the rows of a person: name the column that "
                "identifies one (--privacy-unit COLUMN)."
            )
        protection = self.protection
        if self.records_share is not None and protection.neighbours.records_public:
            raise SpecificationError(
                "records_share pays for measuring the number of private rows, which is public "
                "where one record is replaced: drop it."
            )
        protection.check(self.shares()["mechanism"])
        if self.noise == "exact" and protection != Protection():
            check_not_split(self.private)

    @property
    def protection(self) -> Protection:
        """Whom the release protects.

        Raises
        ------
        SpecificationError
            If the neighbours, the unit, its limit or the share are out of range.
        """
        unit = None
        if self.privacy_unit is not None:
            unit = PrivacyUnit(self.privacy_unit, 1 if self.max_rows is None else self.max_rows)
        share = RECORDS_SHARE if self.records_share is None else self.records_share
        return Protection(self.neighbours, unit, share)

    def budget(self) -> Budget:
        """Return the budget of the whole release.

        Raises
        ------
        SpecificationError
            If epsilon or delta is out of range.
        """
        return Budget(self.epsilon, self.delta)

    def shares(self) -> dict[str, float]:
        """Return the rho of the mechanism and, where it is charged, of the evaluation."""
        return self.budget().shares(self.share)

    def made_mechanism(self) -> Mechanism:
        """Return the mechanism with its settings.

        Raises
        ------
        SpecificationError
            If there is none of that name, or a setting is unknown or out of range.
        """
        return configured_mechanism(self.mechanism, self.settings)

    @property
    def release_name(self) -> str:
        """What the ledger calls this release."""
        return self.release or self.out.resolve().name

    @property
    def evaluation_mode(self) -> EvaluationMode:
        """How the errors are measured on the private table."""
        if self.evaluate is not None:
            return self.evaluate
        return "private" if self.noise == "exact" else "exact"

    @property
    def share(self) -> float:
        """The part of the budget that is kept for the evaluation."""
        if self.evaluation_mode != "private":
            return 0.0
        return EVALUATION_SHARE if self.evaluation_share is None else self.evaluation_share

    @property
    def wants_checks(self) -> bool:
        """Whether the synthetic table is to be checked."""
        return self.noise == "exact" if self.checks is None else self.checks

    @property
    def wants_report(self) -> bool:
        """Whether to write the report."""
        return self.noise == "exact" if self.report is None else self.report

    def specification(self, *, domain_digest: str) -> dict[str, Any]:
        """Return everything that the draws depend on, data apart; see `specification_of`.

        Two requests with the same specification, dataset, release name and edition are one
        release: the second finds the draws of the first and pays nothing.
        """
        mechanism = self.made_mechanism()
        return specification_of(
            epsilon=self.epsilon,
            delta=self.delta,
            protection=self.protection.to_dict(),
            mechanism={"name": mechanism.name, **mechanism.parameters()},
            workload={"degree": self.degree},
            evaluation_share=self.share,
            domain=domain_digest,
            noise=self.noise,
            seed=self.seed if self.noise == "numpy" else None,
        )
