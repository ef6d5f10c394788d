"""Splits: a private and a public table over one domain, from files or of one public table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.common.validation import as_boolean, as_integer, as_text, check_keys
from jam_dagster.errors import InputError, SourceError, SpecificationError
from jam_dagster.privacy.ledger.release_id import canonical_digest
from jam_dagster.tables import (
    Clique,
    Domain,
    EncodedTable,
    encode,
    health_survey,
    health_survey_domain,
    source_from_config,
)
from jam_dagster.tables.codes.table import digest_of
from jam_dagster.tables.sources.base import absolute_paths

FOLDER_VARIABLE = "JAM_DATA"

HALVES = "halves of the public table"
"""The name of the split of a plan."""


@dataclass(frozen=True, eq=False)
class Split:
    """A private and a public table over one domain, the public one None if there is none.

    `of` is the name of the tables of which it may have fewer public rows. Classifiers predict the
    `target`, and are tested on `test`, rows that are in neither table, or else on the private ones.
    """

    name: str
    private: EncodedTable | RepeatedTable
    public: EncodedTable | None
    of: str = ""
    target: str | None = None
    test: EncodedTable | None = None

    @classmethod
    def halves(cls, table: EncodedTable, records: int, seed: int) -> Split:
        """Split a public table at random; one half plays a private table of so many records."""
        if table.records < 2:
            raise InputError(
                "The public table has fewer than two rows, which cannot be split to play both "
                "tables: give a larger one."
            )
        rng = np.random.default_rng([seed, 0x706C616E])
        order = rng.permutation(table.records)
        middle = (table.records + 1) // 2
        private = table.take(np.sort(order[:middle]))
        public = table.take(np.sort(order[middle:]))
        return cls(HALVES, RepeatedTable.to(records, private, rng), public)

    @property
    def domain(self) -> Domain:
        """The domain of both tables."""
        return self.private.domain

    @property
    def counted(self) -> int:
        """Number of records that a run goes through, which a repeated table has fewer of."""
        private, public = self.private, self.public
        own = private.counted if isinstance(private, RepeatedTable) else private.records
        return own + (0 if public is None else public.records)

    @cached_property
    def fingerprint(self) -> str:
        """The text that distinguishes this split from another of the same name.

        It covers only the number of records of the private table: no plain hash of private content
        is ever stored.
        """
        public = None if self.public is None else digest_of({"": self.public})
        return canonical_digest(
            {"domain": self.domain.digest, "records": self.private.records, "public": public}
        )


@dataclass(frozen=True, eq=False)
class RepeatedTable:
    """A table that plays a larger (or smaller) one; a `MarginalSource`.

    Every record is there as often as the number of records asks for, and some, chosen at random,
    once more, so that counts stay whole.
    """

    table: EncodedTable
    times: int
    chosen: npt.NDArray[np.intp]

    @classmethod
    def to(cls, records: int, table: EncodedTable, rng: np.random.Generator) -> RepeatedTable:
        """Return a table as if it had so many records."""
        times, rest = divmod(records, table.records)
        return cls(table, times, np.sort(rng.choice(table.records, rest, replace=False)))

    @cached_property
    def extra(self) -> EncodedTable:
        """The records that are there once more."""
        return self.table.take(self.chosen)

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        return self.table.domain

    @property
    def records(self) -> int:
        """Number of records that it plays."""
        return self.times * self.table.records + len(self.chosen)

    @property
    def counted(self) -> int:
        """Number of records that are really gone through."""
        return self.table.records + len(self.chosen)

    def take(self, indices: npt.NDArray[np.intp]) -> EncodedTable:
        """Return the records at the indices."""
        whole = self.times * self.table.records
        places, later = indices % self.table.records, indices >= whole
        places[later] = self.chosen[indices[later] - whole]
        return self.table.take(places)

    def marginal(self, clique: Clique) -> npt.NDArray[np.int64]:
        """Return the counts of a clique."""
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[np.int64]]:
        """Return the counts of several cliques."""
        wanted = list(cliques)
        extra = self.extra.marginals(wanted)
        return {
            clique: self.times * counts.astype(np.int64) + extra[clique]
            for clique, counts in self.table.marginals(wanted).items()
        }


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split.

    Parameters
    ----------
    name
        Its name in results. Alone: a folder of published tables, or a simulated split.
    private, public
        The user's own tables, as texts for `source_from_config`.
    domain
        The domain file of both; required with own tables.
    of
        The folder of published tables, or the simulated split, if its name differs.
    public_rows
        Number of rows of the public table, from its first on; None: all.
    all_private
        Whether the published public rows belong to the private table, and there is no public one.
    target
        The attribute of the workload ``target``, which classifiers predict.
    test
        The name of a whole published table, or the text of a source. Classifiers are tested on its
        rows that are in neither the private nor the public table; None, or if there are none: on
        the private rows.

    Raises
    ------
    SpecificationError
        If its name is invalid, or an own table lacks a part.
    """

    name: str
    private: str | None = None
    public: str | None = None
    domain: str | None = None
    of: str | None = None
    public_rows: int | None = None
    all_private: bool = False
    target: str | None = None
    test: str | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise SpecificationError(f"a split needs a printable name, got {self.name!r}")
        if "..." in self.name:
            # Splits name Dagster partitions, and Dagster reads '...' as a range.
            raise SpecificationError(f"a split's name must not contain '...', got {self.name!r}")
        if (self.private is None) != (self.domain is None) or (self.public and not self.private):
            raise SpecificationError(
                f"the split {self.name!r} needs private and domain together (and public, where "
                "there is one), or neither: then it is looked for below the folder of data."
            )
        if self.of is not None and self.private is not None:
            raise SpecificationError(f"the split {self.name!r} has both of and private: give one.")
        if self.all_private and (self.private is not None or self.public_rows is not None):
            raise SpecificationError(
                f"all_private of the split {self.name!r} is for published tables, without "
                "public_rows."
            )
        if self.test is not None and self.target is None:
            raise SpecificationError(
                f"the split {self.name!r} has a test and no target: name the attribute that "
                "classifiers predict."
            )
        if self.public_rows is not None and self.public_rows < 1:
            raise SpecificationError(
                f"public_rows of the split {self.name!r} must be at least 1, got {self.public_rows}"
            )

    @classmethod
    def from_config(cls, config: object, folder: Path) -> list[SplitFiles]:
        """Return the splits of an entry of a grid's file; each of several `public_rows` is one.

        The entry is a name, or a mapping with the names of the parameters; relative paths are below
        the folder. Raises SpecificationError if it is neither, or has unknown keys.
        """
        if isinstance(config, str):
            return [cls(config)]
        if not isinstance(config, Mapping):
            raise SpecificationError(f"a split is a name or a mapping, got {config!r}")
        check_keys("a split", config, [one.name for one in fields(cls)])
        rows = config.get("public_rows")
        if isinstance(rows, list):
            every = [
                {**config, "name": f"{config.get('name')}_{n}", "public_rows": n} for n in rows
            ]
            of = {} if "private" in config else {"of": config.get("of", config.get("name"))}
            return [split for one in every for split in cls.from_config(one | of, folder)]
        read = {"public_rows": as_integer, "all_private": as_boolean}
        given: dict[str, Any] = {
            key: read.get(key, as_text)("a split", key, value) for key, value in config.items()
        }
        if "name" not in given:
            raise SpecificationError("a split needs a name")
        own = {"private", "public", "domain", *({"test"} if "private" in given else ())}
        for key in set(given) & own:
            given[key] = absolute_paths(given[key], folder)
        return [cls(**given)]

    @property
    def has_public(self) -> bool:
        """Whether there is a public table; published splits have one, unless all is private."""
        return not self.all_private and (self.private is None or self.public is not None)

    @property
    def _published_name(self) -> str | None:
        """The name of the published tables; None for others."""
        place = self.of or self.name
        return None if self.private is not None or place == SIMULATED else place

    def missing(self, data: Path | None = None) -> str | None:
        """Return why published tables are not below the folder of `load`; None if they are."""
        if self._published_name is None:
            return None
        try:
            _place(self._published_name, data, whole=self.all_private)
        except SourceError as error:
            return str(error)
        return None

    def with_test_at_hand(self, data: Path | None = None) -> SplitFiles:
        """Return the split without its test, if that is a published table that is not there."""
        if self.test is None or self.private is not None or self.missing(data):
            return self
        try:
            _place(self.test, data, whole=True, tables=_WHOLE)
        except SourceError:
            return replace(self, test=None)
        return self

    def load(self, data: Path | None = None) -> Split:
        """Read the tables, below the folder of published ones (that of JAM_DATA if not given)."""
        # Libraries' errors about an unreadable file may quote it.
        with redacted(f"reading the split {self.name!r}"):
            split = self._whole(data)
        if split.public is None or self.public_rows is None:
            return split
        if self.public_rows > split.public.records:
            raise InputError(
                f"The split {self.name!r} has {split.public.records:,} public rows, fewer than "
                "public_rows: lower it."
            )
        return replace(split, public=split.public.take(np.arange(self.public_rows)))

    def _whole(self, data: Path | None) -> Split:
        private, public = self._tables(data)
        if self.all_private and public is not None:
            private, public = _joined(private, public), None
        if not private.records or (public is not None and not public.records):
            raise InputError(
                f"A table of the split {self.name!r} has no rows: give a table with rows."
            )
        if self.target is not None and self.target not in private.domain.positions:
            raise SpecificationError(
                f"The split {self.name!r} does not have its target {self.target!r} among "
                f"{', '.join(private.domain.names)}."
            )
        tables = [one for one in (private, public) if one is not None]
        test = None if self.test is None else _held_out(self._more_rows(private, data), tables)
        name = self.of or self.name
        test = None if test is None or not test.records else test
        return Split(self.name, private, public, of=name, target=self.target, test=test)

    def _more_rows(self, private: EncodedTable, data: Path | None) -> EncodedTable:
        """Return the table of which some rows are in neither of the others."""
        if self.private is not None:
            return encode(source_from_config(str(self.test)).read(private=True), private.domain)
        file, (part,) = _place(str(self.test), data, whole=True, tables=_WHOLE)
        rows = pd.read_csv(file.parent / f"{part}.csv")
        return EncodedTable.from_frame(private.domain, rows)

    def _tables(self, data: Path | None) -> _Tables:
        if self.private is not None and self.domain is not None:
            domain = Domain.load(self.domain)
            private = encode(source_from_config(self.private).read(private=True), domain)
            public = None
            if self.public is not None:
                records = source_from_config(self.public).read(private=False)
                public = encode(records, domain, private=False)
            return private, public
        if self._published_name is None:
            return _small_survey()
        return _published(self._published_name, data, whole=self.all_private)


_WHOLE: Mapping[str, tuple[str, ...]] = {"whole": ("table",)}
_Tables = tuple[EncodedTable, EncodedTable | None]


def _held_out(whole: EncodedTable, tables: Sequence[EncodedTable]) -> EncodedTable:
    """Return the rows of a table that are in no other one, each as often as it is there more."""
    names = list(whole.domain.names)
    rows = pd.DataFrame(dict(zip(names, whole.columns, strict=True)))
    held = pd.concat(
        [pd.DataFrame(dict(zip(names, one.columns, strict=True))) for one in tables],
        ignore_index=True,
    ).astype(rows.dtypes.to_dict())
    # The first of equal rows are those that the others have.
    counts = held.groupby(names, sort=False).size().rename("held").reset_index()
    number = rows.groupby(names, sort=False).cumcount()
    there = rows.merge(counts, how="left", on=names)["held"].fillna(0)
    return whole.take(np.flatnonzero(number.to_numpy() >= there.to_numpy()))


def _joined(one: EncodedTable, other: EncodedTable) -> EncodedTable:
    columns = zip(one.columns, other.columns, strict=True)
    return EncodedTable(one.domain, tuple(map(np.concatenate, columns)))


def _published(name: str, data: Path | None, *, whole: bool) -> _Tables:
    """Read a split of the folder of published tables."""
    file, parts = _place(name, data, whole=whole)
    domain = Domain.load(file)
    tables = [
        EncodedTable.from_frame(domain, pd.read_csv(file.parent / f"{part}.csv")) for part in parts
    ]
    return tables[0], tables[1] if parts[1:] else None


def _place(
    name: str,
    data: Path | None,
    *,
    whole: bool,
    tables: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Path, Sequence[str]]:
    """Return the domain file of a split, in ``paper/<name>`` or ``<name>``, and its tables' names.

    A split whose rows are all private may be one table in ``whole/<name>`` or ``<name>`` instead.
    """
    root = data or os.environ.get(FOLDER_VARIABLE)
    if not root:
        raise SourceError(
            f"The split {name!r} is published elsewhere: name the folder that holds "
            f"{name}/domain.json, priv.csv and pub.csv, such as the splits of the JAM authors' "
            f"repository, with --data or the variable {FOLDER_VARIABLE}. "
            f"Without it there is {SIMULATED}, which is simulated."
        )
    kinds: dict[str, tuple[str, ...]] = {"paper": ("priv", "pub")}
    kinds |= _WHOLE if whole else {}
    kinds = kinds if tables is None else dict(tables)
    known: set[str] = set()
    for kind, parts in kinds.items():
        for below in (Path(root) / kind, Path(root)):
            # The authors' repository names the domain file after the split.
            found = {
                path.parent.name: path
                for path in below.glob("*/*domain.json")
                if all((path.parent / f"{part}.csv").is_file() for part in parts)
            }
            if name in found:
                return found[name], parts
            known |= set(found)
    files = " or ".join(" and ".join(f"{one}.csv" for one in parts) for parts in kinds.values())
    raise SourceError(
        f"{root} holds no split {name!r} (a folder with domain.json, {files}); "
        f"it holds {', '.join(sorted(known)) or 'none'}."
    )


SIMULATED = "census_small"
"""The split that needs no files."""

_SMALL = ("sex", "settlement", "marital_status", "employment", "usual_care")


def _small_survey() -> _Tables:
    """Return 2,000 simulated people and a biased public sample of 400, in five attributes.

    The full domain has 672 cells, so mechanisms that hold all of it run, too.
    """
    rows = health_survey(2000, 400)
    domain = health_survey_domain().project(_SMALL)
    private, public = (encode(one[[*_SMALL]], domain, private=False) for one in rows)
    return private, public
