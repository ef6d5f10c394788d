"""The health survey of the demo: this year's, private, and an older public one, biased.

All people in it are invented. The script that made the files is `benchmarks/health_survey.py` of
the repository.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.sources.parquet import ParquetSource

Part = Literal["private", "public"]
DemoTable = Literal["health_survey", "households", "persons"]

DEMO_ROWS: dict[Part, int] = {"private": 30_000, "public": 3_000}
_FILES = Path(__file__).parents[1] / "demo"
_BEGIN = date(2026, 1, 1)
_TILT_PER_DAY = 3e-5
"""Change of the log-odds of a sampled person, per year of age and day since 2026 began."""

_OF_HOUSEHOLD = ["region", "settlement", "smoking_at_home"]
_OF_PERSON = [
    *("age", "sex", "marital_status", "education", "employment"),
    *("chronic_condition", "doctor_visits", "health"),
]
_ADULT, _GENERATION = 18, 30


def health_survey_domain() -> Domain:
    """Return the declared domain of the health survey.

    It has 15 attributes, categorical and numeric, seven of them nullable, and one impossible
    combination: a person below 15 who is, or has been, married.
    """
    return Domain.load(_FILES / "domain.yaml")


def health_survey(
    private_rows: int = DEMO_ROWS["private"], public_rows: int = DEMO_ROWS["public"]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the first people of a health survey, and of an older one.

    Parameters
    ----------
    private_rows
        Number of people in the private table, this year's survey; at most 30,000.
    public_rows
        Number of people in the public table, the survey of eight years before, with a biased
        response; at most 3,000.

    Returns
    -------
    private, public
        Two tables with the columns of `health_survey_domain`, within it.

    Raises
    ------
    SpecificationError
        A table has fewer rows.
    """
    return survey_part("private", private_rows), survey_part("public", public_rows)


def survey_part(part: Part, rows: int | None = None, period: str = "") -> pd.DataFrame:
    """Return people of one part: the first ones, or the sample of a period.

    `period` is ``2026``, ``2026-03`` or ``2026-03-31``. Its sample is older the later it is.
    """
    table = ParquetSource(str(_FILES / f"{part}.parquet")).read(private=False)
    rows = DEMO_ROWS[part] if rows is None else rows
    if not 1 <= rows <= len(table):
        raise SpecificationError(
            f"the demo: the {part} table has {len(table):,} rows, so rows must be at least 1 and"
            f" at most that, got {rows:,}."
        )
    if not period:
        return table.head(rows)
    day = _day(period)
    age = table["age"].to_numpy(dtype=np.float64)
    weights = np.exp(_TILT_PER_DAY * (day - _BEGIN).days * age)
    rng = np.random.default_rng(day.toordinal())
    sampled = rng.choice(len(table), rows, replace=False, p=weights / weights.sum())
    return table.iloc[sampled].reset_index(drop=True)


def demo_table(
    table: DemoTable, part: Part, rows: int | None = None, period: str = ""
) -> pd.DataFrame:
    """Return people of one part of the survey (`survey_part`), their households, or their persons.

    Those of a region who are as many at home live together if their ages are alike, or a generation
    apart.
    """
    people = survey_part(part, rows, period)
    if table == "health_survey":
        return people
    alike = [*_OF_HOUSEHOLD, "household_size"]
    parents = people["age"] + _GENERATION * (people["age"] < _ADULT)
    people = people.assign(parents=parents).sort_values([*alike, "parents"], kind="stable")
    place = people.groupby(alike).cumcount() // people["household_size"]
    numbers = people.assign(place=place).groupby([*alike, "place"], sort=False).ngroup() + 1
    people.insert(0, "household_id", numbers)
    if table == "persons":
        return people[["household_id", *_OF_PERSON]].reset_index(drop=True)
    return people[["household_id", *_OF_HOUSEHOLD]].drop_duplicates(ignore_index=True)


def _day(period: str) -> date:
    try:
        return date.fromisoformat(period + "-01-01"[3 * period.count("-") :])
    except ValueError:
        raise SpecificationError(
            f"the demo: period must be a year, a month or a day such as 2026-03, got {period!r}"
        ) from None
