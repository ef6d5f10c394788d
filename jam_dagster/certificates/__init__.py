"""Certificates: the guarantee of a release, its cost, and the verification of both.

This package imports nothing heavy: rendering a page loads jinja2, a ledger loads SQLAlchemy.
"""

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.issue import certify, released_files
from jam_dagster.certificates.page import render_certificate
from jam_dagster.certificates.table import table_csv
from jam_dagster.certificates.verification import Finding, verify

__all__ = [
    "Certificate",
    "Finding",
    "certify",
    "released_files",
    "render_certificate",
    "table_csv",
    "verify",
]
