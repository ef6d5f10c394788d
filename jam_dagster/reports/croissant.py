"""Croissant 1.1 metadata of a synthetic table, whose provenance is its certificate."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jam_dagster.certificates import Certificate
from jam_dagster.certificates.certificate import FILE_NAME
from jam_dagster.certificates.held import Held
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.certificates.verification import releasable_certificate
from jam_dagster.common.html_pages import figures
from jam_dagster.errors import InputError
from jam_dagster.tables.domain.text_dtype import SYNTHETIC
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.tables import Domain

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    **{
        name: f"cr:{name}"
        for name in (
            *("column", "extract", "field", "fileObject", "recordSet", "references", "source"),
        )
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

_FORMATS = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
}


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
        If the release may not leave, a file is not the certificate's, or `out` is neither among the
        release's files nor above them.
    """
    certificate = releasable_certificate(folder)
    held = Held(certificate, folder, {}, None)
    tables = ["table", *(["children"] if "children" in certificate.files else [])]
    for name in ("domain", *tables):
        if fault := held.fault_of(name):
            raise InputError(fault)
    paths = [held.path(name) for name in tables]
    proof = folder / FILE_NAME
    # Files of one name may be in two folders, so a file is known by its path.
    *data, proven = _addresses([*paths, proof], out)
    files = [
        *(
            {
                **_file(address, path, certificate.files[name].sha256),
                "description": SAYS_SYNTHETIC,
            }
            for address, path, name in zip(data, paths, tables, strict=True)
        ),
        _file(proven, proof, sha256_of(proof)),
    ]
    edition = certificate.release_id.edition
    about = {"subjectOf": {"@id": proven}}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": certificate.release_id.release,
        "description": _description(certificate),
        "url": url,
        "license": license,
        "keywords": ["synthetic data", "differential privacy"],
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
        "distribution": files,
        "recordSet": _record_sets(held.domain, data, _marks(certificate)),
    }


def _addresses(paths: Sequence[Path | UPath], out: Path) -> list[str]:
    """Return the addresses of files relative to the document, which name no folder around them."""
    places = [os.path.abspath(str(path)) for path in paths]
    base, here = os.path.commonpath(list(map(os.path.dirname, places))), os.path.abspath(out.parent)
    if os.path.commonpath([base, here]) not in (base, here):
        raise InputError(
            f"--out {out} is outside the release, and its paths would name other folders of"
            f" this machine: write it to {base}, or to a folder above it"
        )
    return [quote(os.path.relpath(place, here)) for place in places]


def _file(address: str, path: Path | UPath, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": address,
        "name": path.name,
        "contentUrl": address,
        "encodingFormat": _FORMATS.get(path.suffix, "application/octet-stream"),
        "sha256": sha256,
    }


def _marks(certificate: Certificate) -> tuple[str, ...]:
    """Return the column by which a CSV file says that it is synthetic, if it has one."""
    mark = (certificate.sampling.dialect or {}).get("mark")
    return (SYNTHETIC,) if mark == "column" else ()


def _record_sets(
    domain: Domain, files: Sequence[str], marks: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of the table, and of the table of children if there is one."""
    mark = dict.fromkeys(marks, "bool")
    if domain.children is None:
        return [_record_set("rows", {**domain.columns, **mark}, files[0])]
    roots, children = domain.children.roots, domain.children.domain
    table, column = domain.children.link.table, domain.children.link.column
    rows = "rows" if table != "rows" else "roots"
    key = "str" if domain.children.link.width else "int64"
    owners = _record_set(rows, {column: key, **roots.columns, **mark}, files[0])
    owned = _record_set(table, {column: key, **children.columns, **mark}, files[1])
    owned["field"][0]["references"] = {"field": {"@id": owners["field"][0]["@id"]}}
    return [owners, owned]


def _record_set(name: str, columns: Mapping[str, str], file: str) -> dict[str, Any]:
    fields = [_field(name, column, dtype, file) for column, dtype in columns.items()]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


def _description(certificate: Certificate) -> str:
    asked, dialect = certificate.asked, certificate.sampling.dialect
    said = (
        f"Synthetic data of {certificate.sampling.rows:,} rows. They are"
        f" (epsilon, delta)-differentially private with epsilon = {figures(asked.epsilon)} and"
        f" delta = {figures(asked.delta)}; neighbouring private tables differ by"
        f" {certificate.neighbours.describe()}. {FILE_NAME} has every draw and its cost."
    )
    if dialect:
        stated = ", ".join(f"{name} {value!r}" for name, value in dialect.items())
        said += f" The file is written with: {stated}."
    return said


def _field(rows: str, name: str, dtype: str, file: str) -> dict[str, Any]:
    found = (kind for begin, kind in _TYPES.items() if dtype.lower().startswith(begin))
    return {
        "@type": "cr:Field",
        "@id": f"{rows}/{quote(name)}",
        "name": name,
        "dataType": next(found, "sc:Text"),
        "source": {"fileObject": {"@id": file}, "extract": {"column": name}},
    }
