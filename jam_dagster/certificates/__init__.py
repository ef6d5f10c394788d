"""Certificates: what a release promises, what it cost, and how anybody can check that.

Nothing heavy is imported here: the page takes jinja2 when it is rendered, the ledger SQLAlchemy
where one is given.
"""

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.facts import (
    DomainFacts,
    Entry,
    FileHash,
    PaidDraw,
    RequestedBudget,
    Sampling,
    Standing,
)
from jam_dagster.certificates.issue import certify, released_files
from jam_dagster.certificates.page import render_certificate
from jam_dagster.certificates.table import table_csv, write_table
from jam_dagster.certificates.verification import Finding, verify
from jam_dagster.certificates.wording import Condition

__all__ = [
    "Certificate",
    "Condition",
    "DomainFacts",
    "Entry",
    "FileHash",
    "Finding",
    "PaidDraw",
    "RequestedBudget",
    "Sampling",
    "Standing",
    "certify",
    "released_files",
    "render_certificate",
    "table_csv",
    "verify",
    "write_table",
]
