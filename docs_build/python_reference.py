"""The Python reference: the public names of each package, from their docstrings."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from pydantic.fields import FieldInfo

from jam_dagster.common.section import Section
from jam_dagster.keys import OPTIONS, ReleaseKeys, sentence
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.pipeline import build_synthetic_release
from jam_dagster.release import ReleaseSpec
from jam_dagster.release.dataframes import synthesize

PACKAGES = {
    "tables": "jam_dagster.tables",
    "privacy": "jam_dagster.privacy",
    "mechanisms": "jam_dagster.mechanisms",
    "evaluation": "jam_dagster.evaluation",
    "dataframes": "jam_dagster.release.dataframes",
    "synthesis": "jam_dagster.release",
    "trials": "jam_dagster.trials",
    "certificates": "jam_dagster.certificates",
    "pipeline": "jam_dagster.pipeline",
    "errors": "jam_dagster.errors",
}
"""The page's name of every package or module whose names are public."""

IN_PARTS = {
    "jam_dagster.privacy.Ledger",
    "jam_dagster.mechanisms.FittedModel",
}
"""Classes whose methods stand in several files: their entries show inherited ones."""


def public_names(module: ModuleType) -> list[str]:
    """Return what a module offers: what ``__all__`` lists, or the classes that it defines."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return list(names)
    return [name for name, one in vars(module).items() if _defined(one, module)]


def _more(package: str, entries: list[str]) -> list[str]:
    """Return the mechanisms that are found by their name only, by their places."""
    if package != "mechanisms":
        return []
    listed = {entry.rpartition(".")[2] for entry in entries}
    places = [f"{one.__module__}.{one.__qualname__}" for one in MECHANISMS.values()]
    return [place for place in places if place.rpartition(".")[2] not in listed]


def _defined(one: object, module: ModuleType) -> bool:
    return isinstance(one, type) and one.__module__ == module.__name__


def _keys(path: str) -> str:
    """Return the keys of a section, or the options of a release, as a table; else nothing."""
    module, _, name = path.rpartition(".")
    one = getattr(import_module(module), name)
    if one is synthesize:
        options = {name: key for name, key in OPTIONS.items() if name not in ("private", "public")}
        rows = [_row(name, key.default or "**needed**", key.field) for name, key in options.items()]
        rows.append("| `settings` | none | Settings of the mechanism, such as `{'rounds': 10}`. |")
    else:
        section = ReleaseKeys if one is build_synthetic_release else one
        if not (isinstance(section, type) and issubclass(section, Section)) or one is ReleaseSpec:
            return ""
        rows = [_row(name, _default(field), field) for name, field in section.model_fields.items()]
    return "\n".join(["", "", "| option | default | what it is |", "|---|---|---|", *rows])


def _row(name: str, default: str, field: FieldInfo) -> str:
    return f"| `{name}` | {default} | {sentence(field.description or '')} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    return "" if field.default is None else f"`{field.default!r}`"


def _with_inherited(entry: str) -> str:
    """Return an entry that shows inherited methods, for a class of `IN_PARTS`."""
    if entry.removeprefix("::: ") not in IN_PARTS:
        return entry
    return f"{entry}\n    options:\n      inherited_members: true"


def package_page(name: str) -> str:
    """Return the page of a package: its docstring, and one entry for each public name."""
    path = PACKAGES[name]
    module = import_module(path)
    entries = [f"::: {path}.{one}" for one in public_names(module)]
    entries += [f"::: {one}" for one in _more(name, entries)]
    entries = [_with_inherited(entry) + _keys(entry.removeprefix("::: ")) for entry in entries]
    # What people wrote for readers comes first where somebody searches.
    rank = "---\nsearch: {boost: 0.5}\n---"
    head = [rank, f"# `{path}`", (module.__doc__ or "").strip()]
    return "\n\n".join([*head, *entries]) + "\n"
