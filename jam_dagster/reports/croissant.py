"""Croissant 1.1 metadata of a synthetic table, whose provenance is its certificate."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jam_dagster.certificates import Certificate
from jam_dagster.certificates.certificate import FILE_NAME
from jam_dagster.certificates.held import Held
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.html_pages import figures
from jam_dagster.errors import InputError

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    **{
        name: f"cr:{name}"
        for name in ("column", "extract", "field", "fileObject", "recordSet", "source")
    },
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}
"""The names of the specification's context that the document uses."""

_TYPES = {
    "int": "sc:Integer",
    "uint": "sc:Integer",
    "float": "sc:Float",
    "bool": "sc:Boolean",
    "datetime": "sc:DateTime",
}
"""The types of cells by how the names of pandas' dtypes begin; any other is a text."""

_FORMATS = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


def croissant(
    folder: Path,
    out: Path,
    *,
    url: str,
    license: str,  # noqa: A002
    creators: Sequence[str],
    published: str,
) -> dict[str, Any]:
    """Return the metadata of a release's table as a JSON-LD document.

    Parameters
    ----------
    folder
        The folder of a release that was certified.
    out
        The file that will hold the document; paths in it are relative to that.
    url, license
        Addresses of the table's page and of its licence.
    creators
        Names of the organisations or people who publish the table.
    published
        The day of its publication, such as 2026-05-03.

    Raises
    ------
    InputError
        If the release may not leave, or a file is not the certificate's.
    """
    certificate = Certificate.load(folder)
    if not certificate.releasable:
        raise InputError(f"the run may not leave: {'; '.join(certificate.reasons)}")
    held = Held(certificate, folder, {}, None)
    if fault := held.fault_of("table") or held.fault_of("domain"):
        raise InputError(fault)
    table, proof = held.path("table"), folder / FILE_NAME
    columns = held.domain.columns
    files = {
        table.name: (table, _FORMATS[table.suffix], certificate.files["table"].sha256),
        FILE_NAME: (proof, "application/json", sha256_of(proof)),
    }
    edition = certificate.key.edition
    about = {"subjectOf": {"@id": FILE_NAME}}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": certificate.key.release,
        "description": _description(certificate, len(columns)),
        "url": url,
        "license": license,
        "creator": [{"@type": "sc:Organization", "name": one} for one in creators],
        "datePublished": published,
        "dateCreated": certificate.made[:10],
        **({"version": f"{edition}.0.0"} if edition.isdecimal() else {}),
        **about,
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": f"differentially private release by the mechanism {certificate.mechanism}"
            f" of jam_dagster {certificate.made_with['jam_dagster']}",
            "prov:endedAtTime": certificate.made,
            **about,
        },
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": quote(os.path.relpath(str(path), str(out.absolute().parent))),
                "encodingFormat": kind,
                "sha256": digest,
            }
            for name, (path, kind, digest) in files.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": [_field(name, str(dtype), table.name) for name, dtype in columns.items()],
            }
        ],
    }


def _description(certificate: Certificate, columns: int) -> str:
    asked, dialect = certificate.asked, certificate.sampling.dialect
    said = (
        f"A synthetic table of {certificate.sampling.rows:,} rows and {columns} columns. It is"
        f" (epsilon, delta)-differentially private with epsilon = {figures(asked.epsilon)} and"
        f" delta = {figures(asked.delta)}; neighbouring private tables differ by"
        f" {certificate.neighbours.describe()}. {FILE_NAME} has every draw and its cost."
    )
    if dialect:
        stated = ", ".join(f"{name} {value!r}" for name, value in dialect.items())
        said += f" The file is written with: {stated}."
    return said


def _field(name: str, dtype: str, table: str) -> dict[str, Any]:
    found = (kind for begin, kind in _TYPES.items() if dtype.lower().startswith(begin))
    return {
        "@type": "cr:Field",
        "@id": f"rows/{quote(name)}",
        "name": name,
        "dataType": next(found, "sc:Text"),
        "source": {"fileObject": {"@id": table}, "extract": {"column": name}},
    }
