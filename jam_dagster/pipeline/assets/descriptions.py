"""Descriptions of a release's assets, for their pages in Dagster's UI and its lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jam_dagster.common.shown_text import one_line
from jam_dagster.evaluation.sentences import TABLES
from jam_dagster.pipeline.budget.labels import PrivacyLabel
from jam_dagster.privacy import epsilon_from_rho
from jam_dagster.privacy.shares import EVALUATION, MECHANISM

if TYPE_CHECKING:
    from jam_dagster.release.spec import ReleaseSpec


@dataclass(frozen=True)
class Described:
    """One asset: in a few words, since lists show them in a narrow column, and at length."""

    text: str
    more: str
    kinds: tuple[str, ...]
    next: str


MECHANISM_RUN = "mechanism_run"
"""The asset that runs the mechanism, by its role: its key has the mechanism's name."""

CHILDREN = "synthetic_children"
"""The synthetic children of a release of two tables, by their role: the key has their name."""

ASSETS = {
    "public_records": Described(
        "The public table.",
        "It has raw values.",
        ("pandas", "parquet"),
        "`preview` shows its first rows; `public_discretized` is what the mechanism sees of it.",
    ),
    "domain": Described(
        "Attributes and their values.",
        "A value that the domain does not have is not released.",
        ("yaml",),
        "`table` lists them. `privacy_budget` comes next.",
    ),
    "privacy_budget": Described(
        "The reserved budget.",
        "This release's whole budget is reserved in that of its protected dataset. Nothing"
        " private is opened before it is made.",
        ("ledger",),
        "`outlook` says how long the dataset's budget lasts; the check `budget_suffices` warns"
        " before it ends. The plots show what remained from run to run.",
    ),
    "private_records": Described(
        "The private table.",
        "No row of it is kept. One step opens it, once, and makes all that follows from it up to"
        " the errors.",
        ("pandas", "parquet"),
        "Nothing of it is shown in this UI but its schema. Only this leaves: `synthetic_records`.",
    ),
    "private_discretized": Described(
        "The private table as codes.",
        "{codes}",
        ("numpy", "parquet"),
        "`{mechanism}` {draws} it.",
    ),
    "public_discretized": Described(
        "The public table as codes.",
        "They are integers over the domain.",
        ("numpy", "parquet"),
        "{public}",
    ),
    MECHANISM_RUN: Described(
        "The run of {title}.",
        "{rounds} It charges the ledger before every draw, and keeps the"
        " transcript and the fitted model.",
        ("numpy",),
        "`rounds` lists every choice, `choices_per_round` and `budget_over_rounds` picture them."
        " The plots show from run to run what was spent{shares}.",
    ),
    "synthetic_records": Described(
        "The synthetic table.",
        "It is sampled from the model, and has as many rows as the private one, or as were"
        " measured where that number is private.",
        ("pandas", "parquet"),
        "`preview` shows its first rows, `csv` and `path` say where the files are,"
        " {pictured} pictures some attributes. Its checks are Great Expectations; the"
        " path to the page of all of them is in each. Every column comes from {columns} table,"
        " through the mechanism.",
    ),
    CHILDREN: Described(
        "The synthetic {children}.",
        "Each row belongs to the row of `synthetic_records` that has its {key}. Both tables are of"
        " one sample: the first two rows of a root are of the model, and each further one is drawn"
        " from roots that are like it.",
        ("pandas", "parquet"),
        "`preview` shows its first rows, `csv` and `path` say where the files are. Its checks are"
        " Great Expectations; the check `constraints` finds rows without a root. Every column"
        " comes from the columns of both {children} of a row, through the mechanism.",
    ),
    "workload_error": Described(
        "Errors on the workload.",
        "How far the {judged} table's answers to the workload are from the private"
        " table's (average L1 error, as a fraction of the records: 0 is perfect, 2 the worst).",
        ("numpy",),
        "{finding}The plots show the errors from run to run.",
    ),
    "release_report": Described(
        "The release on one page.",
        "It opens offline, and has budget, choices, comparisons, checks, the guarantee in words.",
        ("html",),
        "`path` says where it is; copy it, and open it in a browser.",
    ),
    "release_certificate": Described(
        "Promises, draws and charges.",
        "The release's promises, every draw that it made, what it was charged, and whether the"
        " table may leave; `jam-dagster certificate verify` checks it without private data.",
        ("json", "html"),
        "`page` is what a privacy officer reads; `verify` is the command that proves it.",
    ),
    "release_report_restricted": Described(
        "The report with exact errors.",
        "It has them marginal by marginal. Restricted: exact statistics of private data.",
        ("html",),
        "`path` says where it is. `release_report` is the one that may leave.",
    ),
}

PUBLIC_RECORDS, PUBLIC_CODES = "public_records", "public_discretized"


def described(name: str) -> Described:
    """Return what an asset is; of several public tables each is ``public_records_<name>``."""
    several = name.startswith(f"{PUBLIC_RECORDS}_")
    return ASSETS[PUBLIC_RECORDS if several else name]


_SEES = {
    PrivacyLabel.PUBLIC: "Anyone. It owes nothing to the private table.",
    PrivacyLabel.PRIVATE: "The pipeline only. It holds values of the people who are"
    " protected, in memory alone.",
    PrivacyLabel.DP: "Anyone. It is differentially private, and what it says was paid for.",
    PrivacyLabel.RESTRICTED: "The owner of the private data only. It is in the private store.",
}

_WITHHELD = "The private store. Many people read this UI, so it shows the outcome only."

_ROUNDS = {
    "chosen": "In every round it selects a marginal and whether to measure it on the private"
    " table, with noise, or on the public one, for free.",
    "public": "It measures the private table with noise, and learns from the public one for free.",
    "private": "It measures the private table with noise.",
    "counted": "It counts the private records, with noise where their number is private, and learns"
    " from the public table for free.",
}

_FREE = "Nothing"
_PAID = "Nothing more: it is computed from what was paid for."


def describe_asset(name: str, spec: ReleaseSpec) -> str:
    """Return the description of an asset in a few words."""
    return described(name).text.format(**_words_of(spec))


def about_asset(name: str, spec: ReleaseSpec, label: PrivacyLabel, price: str) -> dict[str, str]:
    """Return as metadata what an asset is, who may see it, what it costs and where to look."""
    asset = described(name)
    words = _words_of(spec)
    text = asset.more.format(**words)
    if label is PrivacyLabel.RESTRICTED:
        if name == "workload_error" and spec.evaluation_mode == "exact":
            text += " Restricted: exact statistics of private data."
        elif not spec.releasable:
            reasons = map(one_line, spec.not_releasable_because)
            text += f" Not releasable: {'; '.join(reasons)}."
    if name == "privacy_budget" and price:
        text += f" {price}"
    if name in (PUBLIC_RECORDS, "private_records") and words["one_row"]:
        text += f" {words['one_row']}"
    if name == "public_discretized" and spec.previous is not None:
        text += (
            " From the second partition on the public table is the synthetic table of the partition"
            " before"
        )
        share = spec.previous.first_share
        text += f", {share:.0%} of it replaced by the given one." if share else "."
    shown = label is not PrivacyLabel.RESTRICTED or spec.releasable
    where = asset.next.format(**words) if shown else _WITHHELD
    return {
        "about": text,
        "who_may_see_it": _SEES[label],
        "what_it_costs": _cost(name, spec),
        "where_to_look": where,
    }


def _words_of(spec: ReleaseSpec) -> dict[str, str]:
    """Return what the descriptions say differently for each mechanism."""
    mechanism = spec.mechanism.build()
    other = "public" if spec.has_public else "uniform"
    uses = "public" if mechanism.uses_public else "private"
    measures = "chosen" if mechanism.chooses_source else uses
    columns = "those of its name in the private and the public"
    if not mechanism.uses_public:
        columns = "that of its name in the private"
    codes = "They are integers over the domain, and none of them is kept."
    draws = "draws from"
    if not spec.reads_values:
        measures, columns = "counted", "that of its name in the public"
        codes = "No value of the private table is looked at."
        draws = "counts the records of"
    link, one_row = spec.private.linked, ""
    if link is not None:
        one_row = (
            f"It has one row for each {link.column}: the columns of its own table, the number of "
            f"its {link.table}, and two of them, which are drawn at random."
        )
    compared = "The synthetic table is compared with it. The mechanism does not use it."
    return {
        "mechanism": mechanism.name,
        "title": mechanism.titled,
        "rounds": _ROUNDS[measures],
        "public": f"`{mechanism.name}` learns from it for free."
        if mechanism.uses_public
        else compared,
        "columns": columns,
        "codes": codes,
        "draws": draws,
        "pictured": "`compared_with_public`" if spec.has_public else "`distributions`",
        "judged": "synthetic and the public" if spec.has_public else "synthetic",
        "finding": f"`verdict` says whether it is better than {TABLES[other]}, and the check"
        f" `better_than_{other}` warns. ",
        "one_row": one_row,
        "children": "" if link is None else link.table,
        "key": "" if link is None else link.column,
        "shares": " and how much came from public data" if mechanism.uses_public else "",
    }


def _cost(name: str, spec: ReleaseSpec) -> str:
    if name in ("synthetic_records", CHILDREN, "release_certificate", "release_report"):
        return _PAID
    if name not in ("privacy_budget", "private_records", MECHANISM_RUN, "workload_error"):
        return f"{_FREE}."
    if spec.privacy.noise != "exact":
        return f"{_FREE}: seeded noise is for research, and is not charged."
    whole = f"epsilon {spec.privacy.epsilon:g} at delta {spec.privacy.delta:g}"
    whole += f" (rho {spec.budget.rho:.6g})"
    if name == "privacy_budget":
        return (
            f"It reserves {whole} of the dataset {one_line(spec.dataset)}; what is not spent"
            " returns. A release that was reserved is not reserved again."
        )
    if name == "private_records":
        return f"Nothing by itself. Before it is opened the release is reserved: {whole}."
    share = spec.shares.get(MECHANISM if name == MECHANISM_RUN else EVALUATION)
    if share is None:
        return f"{_FREE}, which is why it must not leave."
    epsilon = epsilon_from_rho(share, spec.privacy.delta)
    return (
        f"Up to rho {share:.6g} (by itself epsilon {epsilon:.3g}) of the dataset"
        f" {one_line(spec.dataset)}, charged before each draw. Rendering it again costs nothing."
    )
