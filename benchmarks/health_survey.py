"""A simulated health survey of a region: this year's, private, and an older public one, biased.

    python -m benchmarks.health_survey

writes the two files of the demo, which are in the wheel: `jam_dagster/tables/demo/`.

All people in it are invented, and so are districts, shares of conditions and the currency. The
attributes depend on each other as in a health survey, and some values are missing. The public
survey has the usual bias: it is eight years old, and its respondents are older, better educated
and more often from towns.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from jam_dagster.tables.domain.text_dtype import text_dtype

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

_BEGIN = date(2026, 1, 1)

_REGIONS = ["Alder Coast", "Brinmoor", "Calder Vale", "Dunmere", "Eastfen", "Fairlow"]
_SETTLEMENTS = ["city", "town", "village"]
_SMOKING = ["never", "formerly", "now"]
_MARITAL = ["never married", "married", "divorced", "widowed"]
_EDUCATION = ["primary", "lower secondary", "upper secondary", "vocational", "bachelor", "master"]
_EMPLOYMENT = ["employed", "self-employed", "unemployed", "student", "retired", "at home"]
_CONDITIONS = [
    "high blood pressure",
    "heart disease",
    "diabetes",
    "asthma",
    "arthritis",
    "back pain",
    "migraine",
    "depression",
    "cancer",
]
_CARE = ["family doctor", "private practice", "walk-in clinic", "public clinic"]
_HEALTH = ["very good", "good", "fair", "poor"]


def simulate_health_survey(
    seed: int = 0, private_rows: int = 30_000, public_rows: int = 3_000
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate a health survey of invented people, and an older one.

    Parameters
    ----------
    seed
        Fixes every value. Neither part depends on the size of the other.
    private_rows
        Number of people in the private table, this year's survey.
    public_rows
        Number of people in the public table, the survey of eight years before, with a biased
        response.

    Returns
    -------
    private, public
        Two tables with the columns of `health_survey_domain`, within it.
    """
    private_seed, public_seed = np.random.SeedSequence(seed).spawn(2)
    private = _simulate(np.random.default_rng(private_seed), private_rows, years_ago=0.0)
    rng = np.random.default_rng(public_seed)
    survey = _simulate(rng, 4 * public_rows, years_ago=8.0)
    answers = rng.choice(len(survey), public_rows, replace=False, p=_response(survey))
    return private, survey.iloc[answers].reset_index(drop=True)


def simulate_period(seed: int, rows: int, year: int, drift: float) -> pd.DataFrame:
    """Simulate the private table of another year: other people, from a drifting population.

    Ages, smoking, marriages, education and incomes change as in the years between the two surveys,
    together with all attributes that depend on them. Regions stay the same, as does the health of
    people of the same kind. `drift` is in years by which the population changes in a year.
    """
    begin = date(year, 1, 1)
    years = drift * (begin - _BEGIN).days / 365.25
    return _simulate(np.random.default_rng([seed, begin.toordinal()]), rows, years_ago=-years)


def write(folder: Path) -> None:
    """Write the two tables of the demo as small Parquet files."""
    for part, table in zip(("private", "public"), simulate_health_survey(), strict=True):
        pq.write_table(
            pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None),
            folder / f"{part}.parquet",
            compression="zstd",
            compression_level=22,
        )


def _response(people: pd.DataFrame) -> Floats:
    """Return each person's share in the survey: older, educated, healthier people answer more."""
    age = people["age"].to_numpy(dtype=np.float64)
    tendency = 0.02 * np.minimum(age, 75.0)
    tendency += 0.7 * people["education"].isin(["bachelor", "master"]).to_numpy()
    tendency += 0.5 * (people["settlement"] == "town").to_numpy()
    tendency -= 0.6 * (people["smoking_at_home"] == "now").to_numpy()
    tendency -= 0.4 * (people["usual_care"] == "walk-in clinic").to_numpy()
    share = np.exp(tendency)
    return np.asarray(share / share.sum())


def _simulate(rng: np.random.Generator, rows: int, years_ago: float) -> pd.DataFrame:
    """Draw people attribute by attribute, each given those drawn before."""
    female = rng.random(rows) < 0.51
    age = _ages(rng, rows, female, years_ago)
    adult, child = age >= 18, age < 15
    region = _draw(rng, np.tile([5.0, 2.0, 4.0, 3.0, 1.5, 2.5], (rows, 1)))
    city_share = np.array([0.6, 0.1, 0.45, 0.3, 0.15, 0.25])[region] - 0.003 * years_ago
    settlement = _draw(rng, _columns(city_share, 0.6 * (1 - city_share), 0.4 * (1 - city_share)))
    city = settlement == 0

    now = np.where(city, 0.22, 0.07) * (1 - 0.03 * years_ago) * np.where(child, 0.4, 1.0)
    formerly = (1 - now) * np.clip(0.1 + 0.006 * age, 0.0, 0.4)
    smoking = _draw(rng, _columns(1 - now - formerly, formerly, now))

    education = _educations(rng, age, city, female, years_ago)
    marital = _marital(rng, age, female, years_ago)
    household = _household_sizes(rng, age, marital, city)
    employment = _employments(rng, age, female, education, smoking)
    occupation = _occupations(rng, education, female, settlement)
    hours = _hours(rng, female, employment, occupation, household)
    income = _incomes(rng, age, female, education, employment, occupation, hours, years_ago)
    bmi = _body_mass(rng, age, female, education, employment)
    care = _usual_care(rng, age, city, income, smoking)

    frail = 0.045 * (age - 45.0) - 0.35 * np.clip(education - 1, 0, 4) + 0.9 * (employment == 2)
    health = np.digitize(frail + rng.logistic(0.0, 1.2, rows), [0.2, 2.6, 4.6])

    # Apart from the generator of the rest, so that these two change nothing else.
    of_health = rng.spawn(1)[0]
    condition = _conditions(of_health, age, female, smoking, employment, bmi, health)
    visits = _doctor_visits(of_health, age, female, condition, health)

    refused = rng.random(rows) < 0.04 + 0.05 * (employment == 1)
    unanswered = rng.random(rows) < 0.03
    return pd.DataFrame(
        {
            "age": age,
            "sex": _labels(["male", "female"], female.astype(np.intp)),
            "region": _labels(_REGIONS, region),
            "settlement": _labels(_SETTLEMENTS, settlement),
            "smoking_at_home": _labels(_SMOKING, smoking),
            "marital_status": _labels(_MARITAL, marital),
            "household_size": household,
            "education": _labels(_EDUCATION, education, age < 6),
            "employment": _labels(_EMPLOYMENT, employment, child),
            "chronic_condition": _labels(_CONDITIONS, np.maximum(condition - 1, 0), condition == 0),
            "doctor_visits": _integers(visits, of_health.random(rows) < 0.03),
            "income": _integers(income, child | (adult & refused)),
            "bmi": pd.Series(bmi).mask((age < 2) | (of_health.random(rows) < 0.05)),
            "usual_care": _labels(_CARE, care),
            "health": _labels(_HEALTH, health, unanswered),
        }
    )


def _ages(rng: np.random.Generator, rows: int, female: Truths, years_ago: float) -> Integers:
    ages = np.arange(96)
    bulge = np.exp(-(((ages - (52 - years_ago)) / 14.0) ** 2))
    alive = 1 / (1 + np.exp((ages - 81) / 5.0))
    weights = (0.9 + bulge) * alive
    older = weights / (1 + np.exp(-(ages - 85) / 6.0))
    drawn = rng.choice(ages, rows, p=weights / weights.sum())
    # Women live longer: some women are drawn again, from old age.
    again = female & (rng.random(rows) < 0.03)
    return np.where(again, rng.choice(ages, rows, p=older / older.sum()), drawn).astype(np.int64)


def _educations(
    rng: np.random.Generator, age: Integers, city: Truths, female: Truths, years_ago: float
) -> Places:
    born = -(age + years_ago)
    drive = 0.035 * (born + 45.0) + 0.7 * city + 0.2 * female * (age < 40)
    level = np.digitize(drive + rng.logistic(0.0, 1.0, len(age)), [-3.2, -1.8, -0.2, 0.9, 2.2])
    reached = np.digitize(age, [12, 16, 19, 20, 23, 25]) - 1
    return np.asarray(np.minimum(level, np.maximum(reached, 0)))


def _marital(rng: np.random.Generator, age: Integers, female: Truths, years_ago: float) -> Places:
    ever = 1 / (1 + np.exp(-(age - 31.0 + 0.25 * years_ago + 2.0 * female) / 4.5)) * 0.86
    ever = np.where(age < 18, 0.0, ever)
    widowed = ever / (1 + np.exp(-(age - np.where(female, 78.0, 86.0)) / 6.0))
    divorced = (ever - widowed) * np.clip((age - 25) / 110.0, 0.0, 0.25)
    return _draw(rng, _columns(1 - ever, ever - widowed - divorced, divorced, widowed))


def _household_sizes(
    rng: np.random.Generator, age: Integers, marital: Places, city: Truths
) -> Integers:
    with_children = (age < 18) | ((marital == 1) & (age >= 25) & (age < 52))
    least = np.where(with_children, 2, np.where(marital == 1, 2, 1))
    more = np.where(with_children, 1.5, np.where(age < 28, 1.0, 0.25)) * np.where(city, 0.8, 1.1)
    return np.minimum(least + rng.poisson(more), 8).astype(np.int64)


def _employments(
    rng: np.random.Generator,
    age: Integers,
    female: Truths,
    education: Places,
    smoking: Places,
) -> Places:
    student = np.where(age < 18, 0.93, np.clip(0.6 - 0.06 * (age - 18) + 0.05 * education, 0, 0.8))
    student = np.where(age > 34, 0.002, student)
    retired = (1 - student) / (1 + np.exp(-(age - 64.5) / 1.8))
    rest = 1 - student - retired
    jobless = rest * np.clip(0.12 - 0.02 * education + 0.05 * (smoking == 2), 0.02, 0.2)
    home = rest * np.where(female, 0.14, 0.04)
    own = rest * np.clip(0.03 + 0.002 * age, 0.03, 0.16)
    return _draw(rng, _columns(rest - jobless - home - own, own, jobless, student, retired, home))


def _occupations(
    rng: np.random.Generator, education: Places, female: Truths, settlement: Places
) -> Places:
    by_education = np.array(
        [
            [4, 5, 8, 6, 4, 1, 0.1, 0.1, 0.3],
            [3, 6, 7, 7, 5, 2, 0.2, 0.2, 0.5],
            [2, 4, 4, 7, 5, 8, 0.5, 1, 1.5],
            [3, 9, 6, 4, 8, 4, 0.5, 2, 1],
            [0.5, 1, 1, 3, 3, 7, 5, 6, 4],
            [0.3, 0.3, 0.5, 1, 2, 4, 7, 7, 7],
        ]
    )
    women = np.array([0.6, 0.25, 0.5, 1.3, 3.2, 1.6, 2.4, 0.35, 0.7])
    village = np.array([6.0, 1.5, 1.3, 0.9, 1.0, 0.6, 1.0, 0.7, 0.6])
    weights = by_education[education] * np.where(female[:, None], women, 1.0)
    return _draw(rng, weights * np.where((settlement == 2)[:, None], village, 1.0))


def _hours(
    rng: np.random.Generator,
    female: Truths,
    employment: Places,
    occupation: Places,
    household: Integers,
) -> Floats:
    part_time = rng.random(len(female)) < np.where(female, 0.12 + 0.09 * (household > 2), 0.07)
    usual = np.where(part_time, 22.0, 38.5) + 5.0 * (employment == 1) + 4.0 * (occupation == 8)
    spread = np.where(part_time, 6.0, 2.5) + 5.0 * (employment == 1)
    return np.asarray(np.clip(np.round(rng.normal(usual, spread)), 1, 80))


def _incomes(
    rng: np.random.Generator,
    age: Integers,
    female: Truths,
    education: Places,
    employment: Places,
    occupation: Places,
    hours: Floats,
    years_ago: float,
) -> Floats:
    pay = np.array([-0.2, 0.0, 0.05, -0.15, -0.1, 0.1, 0.15, 0.35, 0.55])[occupation]
    career = 0.028 * np.clip(age - 20.0, 0, 30)
    log_wage = 9.55 + 0.13 * education + pay + career - 0.07 * female + np.log(hours / 38.5)
    own = rng.normal(0.0, 0.35, len(age)) + (employment == 1) * rng.normal(-0.1, 0.5, len(age))
    pension = log_wage - np.log(hours / 38.5) - 0.75 + 0.5 * own
    benefit = 9.1 + 0.3 * own
    allowance = 8.2 + 0.6 * own
    log_income = np.select(
        [employment <= 1, employment == 4, employment == 2], [log_wage + own, pension, benefit]
    )
    log_income = np.where((employment == 3) | (employment == 5), allowance, log_income)
    yearly = np.round(np.exp(log_income - 0.025 * years_ago), -1)
    return np.asarray(np.clip(yearly, 0, 400_000))


def _body_mass(
    rng: np.random.Generator,
    age: Integers,
    female: Truths,
    education: Places,
    employment: Places,
) -> Floats:
    """Draw the body mass index, in kg/m²."""
    grown = 23.5 + 0.09 * np.minimum(age - 18, 47) + 0.9 * ~female - 0.5 * (education - 2)
    usual = np.where(age < 18, 15.0 + 0.37 * age, grown + 1.0 * (employment == 2))
    return np.asarray(np.round(np.clip(usual * np.exp(rng.normal(0.0, 0.15, len(age))), 12, 60), 1))


def _usual_care(
    rng: np.random.Generator,
    age: Integers,
    city: Truths,
    income: Floats,
    smoking: Places,
) -> Places:
    means = np.log1p(income) - 10.0
    family_doctor = np.exp(0.05 * (age - 55.0) - 0.6 * city)
    private_practice = np.exp(0.8 * means - ((age - 42.0) / 16.0) ** 2 + 0.5)
    walk_in = np.exp(0.9 * city - 0.03 * (age - 35.0) + 0.7 * (smoking == 2) - 0.6)
    public_clinic = np.exp(-0.6 * means + 0.4 * city - 1.4)
    return _draw(rng, _columns(family_doctor, private_practice, walk_in, public_clinic))


def _conditions(
    rng: np.random.Generator,
    age: Integers,
    female: Truths,
    smoking: Places,
    employment: Places,
    bmi: Floats,
    health: Places,
) -> Places:
    """Draw the main chronic condition: 0 for none, else its place in the list plus one."""
    old = 1 / (1 + np.exp(-(age - 55) / 8.0))
    adult, smokes = age >= 18, smoking == 2
    weights = _columns(
        np.array([14.0, 7.0, 3.9, 2.3])[health],
        0.05 + 1.6 * old + 0.06 * np.maximum(bmi - 25.0, 0.0),
        0.01 + old * np.where(female, 0.5, 0.7) + 0.2 * smokes * adult,
        0.04 + 0.4 * old + 0.05 * np.maximum(bmi - 27.0, 0.0),
        0.35 + 0.3 * smokes,
        0.02 + old * np.where(female, 1.3, 0.8),
        np.where(adult, 0.62, 0.02),
        0.02 + adult * np.where(female, 0.7, 0.3) * (1 - old),
        0.02 + adult * (0.25 + 0.15 * female + 0.5 * (employment == 2)),
        0.01 + 0.4 * old,
    )
    return _draw(rng, weights)


def _doctor_visits(
    rng: np.random.Generator,
    age: Integers,
    female: Truths,
    condition: Places,
    health: Places,
) -> Floats:
    """Draw the number of visits to a doctor in the last twelve months."""
    usual = 0.8 + 1.0 * health + 2.0 * (condition > 0) + 2.5 * (condition == 9) + 1.5 * (age < 5)
    usual = usual + 0.03 * np.maximum(age - 40, 0) + 0.6 * (female & (age >= 15))
    frequent = rng.gamma(1.5, 1 / 1.5, len(age))
    return np.asarray(np.minimum(rng.poisson(usual * frequent), 60), dtype=np.float64)


def _draw(rng: np.random.Generator, weights: Floats) -> Places:
    """Draw a column for each row of weights, shape (rows, choices), by inversion."""
    bounds = np.cumsum(weights, axis=1)
    marks = rng.random((len(weights), 1)) * bounds[:, -1:]
    return np.asarray(np.minimum((marks >= bounds).sum(axis=1), weights.shape[1] - 1))


def _columns(*weights: Floats) -> Floats:
    return np.stack([np.broadcast_to(one, weights[0].shape) for one in weights], axis=1)


def _labels(labels: list[str], codes: Places, missing: Truths | None = None) -> pd.Series[Any]:
    column = pd.Series(pd.array(labels, dtype=text_dtype()).take(codes))
    return column if missing is None else column.mask(missing)


def _integers(values: Floats, missing: Truths) -> pd.Series[Any]:
    return pd.Series(values.astype(np.int64)).astype("Int64").mask(missing)


if __name__ == "__main__":
    write(Path("jam_dagster/tables/demo"))
