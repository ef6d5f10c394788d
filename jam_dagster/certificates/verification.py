"""Verification of a certificate from the release's own files, without private data.

Each check is independent and reports a finding. Together they detect a change in any file, and any
claim that does not follow from the files. The files alone cannot reveal a release that was invented
as a whole, including its ledger entries: the check against the ledger itself does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.certificate import (
    Certificate,
    facts_of,
    file_in,
    read_document,
    seal_of,
    setting_fault,
)
from jam_dagster.certificates.facts import DomainFacts
from jam_dagster.certificates.held import UNREADABLE, Held
from jam_dagster.certificates.issue import SEED_BYTES, content_of, environment
from jam_dagster.certificates.ledger_faults import (
    certified,
    chain_faults,
    ledger_faults,
    signing_key_faults,
    withdrawal_faults,
)
from jam_dagster.certificates.outcome_faults import (
    Outcomes,
    compare_outcomes,
    draw_faults,
    draws_of,
    error_faults,
)
from jam_dagster.certificates.page import PAGE_NAME, render_certificate
from jam_dagster.certificates.refitting import REFIT_TOLERANCE
from jam_dagster.certificates.signing import signature_holds
from jam_dagster.certificates.table import digest_written, marks_of, run_digest, table_digest
from jam_dagster.common.files import read_text_bytes
from jam_dagster.errors import InputError, JamError
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.mechanisms.loops.rows import chunk_sizes, release_rows
from jam_dagster.mechanisms.loops.transcript import measurements_hash
from jam_dagster.mechanisms.registry import find_mechanism
from jam_dagster.privacy.accounting import units_down
from jam_dagster.privacy.ledger.release_id import fingerprint_of
from jam_dagster.privacy.shares import DOMAIN, EVALUATION, MECHANISM
from jam_dagster.tables import PublicSources
from jam_dagster.tables.domain.text_dtype import SYNTHETIC
from jam_dagster.tables.sources.dialect import Dialect
from jam_dagster.tables.sources.table_file import ChunkFormat
from jam_dagster.version import __version__

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy import Ledger
    from jam_dagster.tables import Source

_ALTERED = "the certificate's seal does not fit its content: it was altered"


def releasable_certificate(path: Path | UPath) -> Certificate:
    """Return the certificate of a release that may leave, for what is written from it.

    Raises
    ------
    InputError
        If there is no certificate, it was altered, or its release may not leave.
    """
    document = read_document(path)
    certificate = Certificate.from_dict(document, file_in(path))
    if document.get("seal") != seal_of(document):
        raise InputError(_ALTERED)
    if not certificate.releasable:
        raise InputError(f"the run may not leave: {'; '.join(certificate.reasons)}")
    return certificate


@dataclass(frozen=True)
class Finding:
    """The finding of one check of a certificate.

    Parameters
    ----------
    name
        The subject of the check.
    passed
        Whether it holds.
    message
        The finding in words.
    checked
        Whether the check was made; a check that was skipped for lack of a file is no fault.
    """

    name: str
    passed: bool
    message: str
    checked: bool = True


def found_by(
    name: str, faults: Callable[[], Iterator[str]], sound: Callable[[], str] = lambda: "as stated"
) -> Finding:
    """Run one check; an unreadable file fails it."""
    try:
        wrong = list(faults())
        return Finding(name, not wrong, "; ".join(wrong) if wrong else sound())
    except JamError as error:
        return Finding(name, False, str(error))
    except UNREADABLE as error:
        return Finding(name, False, f"cannot be read ({type(error).__name__})")


def not_checked(name: str, why: str) -> Finding:
    """Return the finding of a check that was skipped, which is no fault."""
    return Finding(name, True, f"NOT CHECKED: {why}", checked=False)


def verify(
    path: Path | UPath,
    *,
    files: Mapping[str, Path | UPath] | None = None,
    ledger: Ledger | None = None,
    public: Source | PublicSources | None = None,
    signing_keys: Collection[str] = (),
) -> list[Finding]:
    """Check every claim of a certificate.

    Parameters
    ----------
    path
        The certificate, or the folder that holds it.
    files
        Files that have moved since, by their names in the certificate.
    ledger
        The ledger that was charged; without it only the chain of the entries is checked.
    public
        The public table of the release, or several by their names. Some models need them; without
        them the refit of such a model is skipped, as its finding says.
    signing_keys
        Public keys that the reader trusts, in base64; any of them may have signed.

    Returns
    -------
    list of Finding
        One finding for each check; the certificate is good if all passed.

    Raises
    ------
    InputError
        If there is no certificate to read.
    """
    document = read_document(path)
    certificate = Certificate.from_dict(document, file_in(path))
    folder = path if path.is_dir() else path.parent
    held = Held(certificate, folder, files or {}, public)
    return [
        found_by("the certificate is whole", lambda: _seal_faults(document, certificate)),
        *_sentences(document, certificate),
        _signed(document, certificate, ledger, signing_keys),
        *(found_by(f"file: {name}", _file_check(held, name)) for name in held.names),
        *_page(certificate, folder),
        found_by("the domain", lambda: _domain_faults(held)),
        found_by("the transcript", lambda: _transcript_faults(held)),
        *_mechanism(certificate),
        found_by("the settings", lambda: filter(None, [setting_fault(certificate)])),
        *_public_table(held),
        _draws(held),
        found_by("the budget", lambda: _budget_faults(certificate)),
        *_paid(held, ledger),
        _refitted(held),
        table := found_by("the table, sampled again", lambda: _table_faults(held)),
        *_errors(held, table),
    ]


def _errors(held: Held, table: Finding) -> Iterator[Finding]:
    """Check what a file of errors says in addition to the means, if there is one."""
    if "errors" not in held.certificate.files:
        return
    name = "the errors"
    if table.passed:
        yield found_by(name, lambda: _error_faults(held))
    else:
        yield not_checked(name, "they follow from the table, which is not the release's")


def _error_faults(held: Held) -> Iterator[str]:
    certificate, errors = held.certificate, held.errors
    calls = [one.call for one in certificate.draws if one.share == EVALUATION and not one.call.lost]
    if errors is None or len(calls) != 1:
        yield "no draw, or more than one, is stated for them"
        return
    run = run_digest(certificate.release_id, held.transcript)
    records = held.transcript.records
    yield from error_faults(errors, calls[0], held.counts(), held.workload, records, run)


def _page(certificate: Certificate, folder: Path | UPath) -> Iterator[Finding]:
    """Check the certificate's page, if it exists: it is rendered again, and compared."""
    path, name = folder / PAGE_NAME, f"page: {PAGE_NAME}"
    if not path.is_file():
        return
    found = found_by(name, lambda: _page_faults(certificate, path))
    if found.passed or not _of_another_version(certificate):
        yield found
    else:
        yield not_checked(name, "another version of jam-dagster made it; the certificate counts")


def _page_faults(certificate: Certificate, path: Path | UPath) -> Iterator[str]:
    # Rendering brings jinja2, for which a certificate without a page need not wait.
    from jinja2 import TemplateError

    try:
        wanted = render_certificate(certificate)
    except TemplateError:
        yield f"{path} cannot be rendered again: the certificate lacks what it shows"
        return
    if read_text_bytes(path) != wanted.encode():
        yield f"{path} was altered: it says something else than the certificate"


def _mechanism(certificate: Certificate) -> Iterator[Finding]:
    """Check a mechanism that this version lacks: research may have been given it."""
    name = certificate.mechanism
    if name in MECHANISMS:
        return

    def faults() -> Iterator[str]:
        lacks = f"jam-dagster {__version__} has no mechanism {name}"
        if certificate.noise == "exact":
            yield f"{lacks}, and draws exactly for its own alone: verify with a version that has it"
        elif find_mechanism(name) is None:
            yield f"{lacks}: verify where synthesize() was given an object of its class"

    yield found_by("the mechanism", faults)


def _public_table(held: Held) -> Iterator[Finding]:
    """Say that a public table was given to a run that learned from none."""
    with suppress(JamError, *UNREADABLE):
        if held.ignores_public:
            said = "ignored: the mechanism, with its settings, learned from no public table"
            yield Finding("the public table", True, said)


def _paid(held: Held, ledger: Ledger | None) -> Iterator[Finding]:
    """Check the charges; research has none."""
    certificate = held.certificate
    if certificate.standing is None and certificate.noise != "exact" and ledger is None:
        return
    yield found_by("the charges", lambda: iter(certificate.charge_faults))
    yield found_by("the chain of entries", lambda: chain_faults(certificate))
    yield _outcomes(held)
    if ledger is not None:
        yield found_by("the ledger", lambda: ledger_faults(certificate, ledger))
        yield found_by(
            "the withdrawals",
            lambda: withdrawal_faults(certificate, ledger),
            lambda: "the ledger has withdrawn neither the release nor one that it was drawn on",
        )
        yield _issued(certificate, ledger)


def _draws(held: Held) -> Finding:
    """Check the draws; those that a run makes need the public table that it was given."""
    name = "the draws"

    def faults() -> Iterator[str]:
        yield from draw_faults(held.certificate)
        if held.refit is not None and held.refit.fault:
            yield held.refit.fault

    found = found_by(name, faults)
    if not found.passed:
        return found
    if held.refit is not None and not held.refit.lacks_tables:
        return found
    if held.refit is not None:
        return not_checked(
            name,
            "the mechanism makes them; public counts, and how many of them it could choose, are as "
            "the transcript states; verify with --public TABLE",
        )
    return not_checked(
        name,
        "their noise is what was paid for; whether the mechanism makes them, with these prices, "
        "sensitivities and candidates, needs public data; verify with --public TABLE",
    )


def _refitted(held: Held) -> Finding:
    """Check the model, if the run could be replayed."""
    name = "the model, refitted"

    def faults() -> Iterator[str]:
        near = held.nearness
        if near is not None and not held.near:
            yield (
                f"the stored model is not the one that the transcript gives: {summary()}"
                if math.isfinite(near.apart)
                else "the stored model is over other marginals than the transcript's"
            )

    def summary() -> str:
        near = held.nearness
        if near is None:
            return ""
        here = f"; fitted as on a processor of the kind {near.processor}" if near.processor else ""
        tolerance = REFIT_TOLERANCE if near.processor else held.tolerance
        other = f"; made with another {', '.join(held.foreign)}" if held.foreign else ""
        decided = f"; {near.differing} of the run's decisions are not those of this fit"
        return (
            f"at most {near.apart:.2g} of the records apart in any compared marginal, of "
            f"{tolerance:g} allowed{here}{'' if near.processor else other}"
            f"{decided if near.differing else ''}"
        )

    found = found_by(name, faults, summary)
    if not found.passed or found.message:
        return found
    if held.refit is None:
        return not_checked(name, "the model needs public data; verify with --public TABLE")
    return not_checked(name, "the transcript is not what the mechanism does: see the draws")


def _issued(certificate: Certificate, ledger: Ledger) -> Finding:
    """Check that the ledger journalled this very certificate when it was issued."""
    name = "the certificate, in the ledger"
    known: list[bool | None] = []

    def faults() -> Iterator[str]:
        known.append(certified(certificate, ledger))
        if known[0] is False:
            yield "the ledger never journalled this certificate: it was altered, or is another's"

    found = found_by(name, faults, lambda: "the ledger has its digest")
    if not found.passed or known[0]:
        return found
    return not_checked(name, "the ledger has no certificate of this release")


def _signed(
    document: dict[str, Any],
    certificate: Certificate,
    ledger: Ledger | None,
    signing_keys: Collection[str],
) -> Finding:
    """Check the signature, by the reader's trusted keys or the ledger."""
    name = "the signature"
    signature = certificate.signature
    if signature is None:
        if signing_keys:
            return Finding(name, False, "NOT SIGNED, and it should be by the given key")
        if ledger is not None:
            return Finding(name, True, "NOT SIGNED; the ledger is what vouches for it")
        return not_checked(name, "NOT SIGNED: only the ledger can show who issued it")

    def faults() -> Iterator[str]:
        if not signature_holds(document, signature):
            yield "the signature is not valid for its key on this certificate"
        elif signing_keys and signature.key not in signing_keys:
            by = fingerprint_of(signature.key)
            yield (
                f"the signature is by another key than the given one: {by}. Give its public half"
                " too (--key) if you trust it"
            )
        elif ledger is not None:
            yield from signing_key_faults(certificate, signature.key, ledger)

    found = found_by(name, faults, lambda: f"by the key {fingerprint_of(signature.key)}")
    if not found.passed or signing_keys or ledger is not None:
        return found
    return not_checked(
        name,
        f"it is by the unverified key {fingerprint_of(signature.key)}: verify with --key "
        "PUBLIC.pem or --ledger",
    )


def _outcomes(held: Held) -> Finding:
    """Check the outcomes of the draws against their digests in the ledger."""
    name = "the outcomes"
    found: list[Outcomes] = []

    def faults() -> Iterator[str]:
        certificate = held.certificate
        found.append(
            compare_outcomes(
                *(certificate.draws, certificate.entries, held.transcript),
                held.errors,
                content_of(certificate.files, restricted=certificate.domain.restricted),
                held.domain,
            )
        )
        yield from found[0].faults

    def summary() -> str:
        return f"{found[0].compared} as they were stored"

    return found_by(name, faults, summary)


def _seal_faults(document: dict[str, Any], certificate: Certificate) -> Iterator[str]:
    if document.get("seal") != seal_of(document):
        yield _ALTERED
    follows = certificate.to_dict()
    if _of_another_version(certificate):
        document, follows = facts_of(document), facts_of(follows)
    for name in sorted(document.keys() | follows.keys() - {"seal"}):
        if name != "seal" and document.get(name) != follows.get(name):
            yield f"its part {name!r} does not follow from the rest"


def _of_another_version(certificate: Certificate) -> bool:
    return certificate.made_with.get("jam_dagster") != __version__


def _sentences(document: dict[str, Any], certificate: Certificate) -> Iterator[Finding]:
    """Say that sentences were not compared, if another version worded them otherwise."""
    if _of_another_version(certificate) and document != certificate.to_dict():
        why = "another version of jam-dagster worded them; the figures count"
        yield not_checked("the certificate's sentences", why)


def _file_check(held: Held, name: str) -> Callable[[], Iterator[str]]:
    return lambda: filter(None, [held.fault_of(name)])


def _domain_faults(held: Held) -> Iterator[str]:
    stated, found = held.certificate.domain, held.domain
    if found.digest != stated.digest:
        yield "the domain file holds another domain"
    if found.identified_from != stated.identified_from:
        yield "the domain has another origin than the certificate states"
    if len(found.names) != stated.attributes:
        yield "the domain has another number of attributes"
    if stated.asked != DomainFacts.of(found).asked:
        yield "the domain was bought for another one that asked"
    asked, terms = (
        None if found.bought is None else found.bought.asked.asked,
        held.certificate.asked,
    )
    if terms.selections != (0.0 if asked is None else asked.selections(terms.delta)):
        yield "selections of values were asked for with another delta than the domain asks for"
    draws = [one for one in held.certificate.draws if one.share == DOMAIN]
    if draws != [one for one in draws_of(held.transcript, found) if one.share == DOMAIN]:
        yield "the domain was bought by other draws than the certificate states"


def _transcript_faults(held: Held) -> Iterator[str]:
    stated, found = held.certificate, held.transcript
    same = {
        "mechanism": (stated.mechanism, found.mechanism),
        "settings": (dict(stated.parameters), dict(found.parameters)),
        "domain": (stated.domain.digest, found.domain_digest),
        "number of records": (stated.records, found.records),
        "neighbours": (stated.neighbours, found.neighbours),
        "noise": (stated.noise, found.noise),
        "list of draws": (
            [one.call for one in stated.draws if one.share == MECHANISM],
            list(found.calls),
        ),
        "measurements": (stated.sampling.measurements, measurements_hash(found).hexdigest()),
        "number of rows": (stated.sampling.rows, found.records),
    }
    same["workload"] = (held.workload.digest, found.workload_digest)
    for name, (one, other) in same.items():
        if one != other:
            yield f"the {name} of the transcript and of the certificate differ"
    paid = sum(call.rho for call in found.calls)
    if not math.isclose(found.rho_spent, paid, rel_tol=1e-9, abs_tol=1e-15):
        yield "the transcript has spent another amount than the price of its draws"
    if not math.isclose(found.rho_budget, stated.asked.shares[MECHANISM], rel_tol=1e-9):
        yield "the transcript had another budget than the mechanism's share"
    if found.releasable != (found.noise == "exact"):
        yield "the transcript's `releasable` contradicts the name of its noise"


def _budget_faults(certificate: Certificate) -> Iterator[str]:
    asked = certificate.asked
    whole = units_down(asked.budget.rho)
    if sum(units_down(rho) for rho in asked.shares.values()) > whole:
        yield "the shares hold more than epsilon and delta are worth"
    spent: dict[str, float] = dict.fromkeys(asked.shares, 0.0)
    for draw in certificate.draws:
        if draw.share not in spent:
            yield f"{draw.call.step} was paid from a share that was not requested"
        else:
            spent[draw.share] += draw.call.rho
    for share, rho in spent.items():
        if rho > asked.shares[share] * (1 + 1e-12):
            yield f"the draws of share {share} cost more than it held"


def _table_faults(held: Held) -> Iterator[str]:
    sampling = held.certificate.sampling
    transcript = held.transcript
    same = {
        "number of rows": (sampling.rows, transcript.records),
        "search for rows": (sampling.search, transcript.search),
        "number of rows a chunk": (sampling.chunk_rows, transcript.chunk_rows),
    }
    for name, (stated, found) in same.items():
        if stated != found:
            yield f"the table has another {name} than the transcript says"
            return
    in_chunks = sampling.chunk_rows is not None
    path = held.path("table")
    if in_chunks:
        sizes = held.table.sizes
        if sum(sizes) != sampling.rows or sizes != chunk_sizes(transcript):
            yield f"{path} has chunks of other numbers of rows than the transcript says"
            return
    else:
        # Each row ends, and its cells are apart, by a byte.
        most = path.stat().st_size // len(held.domain.roots.columns)
        if sampling.rows > most:
            yield (
                f"{path} is too small for its number of rows, {sampling.rows:,}: at most {most:,}"
                " fit"
            )
            return
    if sampling.derived:
        derived = measurements_hash(transcript).hexdigest()[: 2 * SEED_BYTES]
        if sampling.seed != derived:
            yield "the seed does not follow from the measurements"
            return
    elif held.certificate.noise == "exact":
        yield "the table of a release must be sampled with the derived seed"
    is_same = _same_chunks(held) if in_chunks else _same_tables(held)
    if not is_same:
        other = f" (made with another {', '.join(held.foreign)})" if held.foreign else ""
        yield f"sampling the model again gives another table than the published one{other}"


def _same_tables(held: Held) -> bool:
    """Return whether the published files are what was sampled, with the children if there are."""
    dialect = Dialect(**held.certificate.sampling.dialect or {})
    rows, children = held.whole, held.domain.children
    made = {"table": table_digest(rows.table, held.domain.roots, dialect)}
    if rows.children is not None and children is not None:
        made["children"] = table_digest(rows.children, children.domain, dialect)
    files = held.certificate.files
    return made == {name: files[name].sha256 for name in ("table", "children") if name in files}


def _same_chunks(held: Held) -> bool:
    """Return whether a table's file is what its chunks would be written to."""
    certificate, here = held.certificate, environment()
    mark = run_digest(certificate.release_id, held.transcript)
    marks = marks_of(mark)
    # A file of an earlier version does not say that it is synthetic.
    if not held.table.says_synthetic:
        del marks[SYNTHETIC]
    form = ChunkFormat(held.domain, marks)
    with closing(release_rows(held.model, held.transcript, held.seed, form=form)) as sampled:
        chunks = (chunk.table for chunk in sampled)
        # A file has the versions of what wrote it.
        if any(certificate.made_with.get(name) != here[name] for name in ("pandas", "pyarrow")):
            return form.holds(held.table, chunks)
        written = digest_written(lambda file: form.write(chunks, file))
    return written == certificate.files["table"].sha256
