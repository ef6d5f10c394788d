"""A release whose domain does not fit says so, on every surface that has a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.intervals import answer
from jam_dagster.tables import Domain, encode
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.public import PublicSources

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "kg": {
                "bounds": [40, 120],
                "bins": 4,
                "outside": "clip",
                "nullable": True,
                "unreadable": "missing",
            },
            "sex": {"values": ["f", "m"]},
        }
    }
)


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kg = rng.normal(75.0, 12.0, rows).round(1)
    return pd.DataFrame({"kg": kg, "sex": rng.choice(["f", "m"], rows)})


def release(private: pd.DataFrame, domain: Domain, **given: Any) -> jam.FrameRelease:
    settings = {"degree": 1, "mechanism": "independent", **given}
    return jam.synthesize(
        private, table(500, seed=1), domain=domain, epsilon=5.0, noise="numpy", **settings
    )


def test_beside_a_private_column_that_does_not_read_there_is_no_praise() -> None:
    private = table(2000, seed=0)
    commas = private.assign(kg=private["kg"].astype(str).str.replace(".", ","))
    made = release(commas, DOMAIN)
    assert made.errors.left_out == ("kg",)
    assert made.verdict.headline.startswith("The domain does not fit kg. In kg, ")
    assert "etter" not in " ".join(made.verdict.sentences)
    assert "are missing, and 0.0% in the public table." in made.verdict.headline
    (warning,) = (one for one in made.messages if one.startswith("Warning: The domain"))
    assert "values in another format both count as missing in kg" in warning

    # The only pair that was measured has the column.
    pair = release(commas, DOMAIN, degree=2, mechanism="mst")
    assert pair.verdict.misfits == ("kg",)
    assert not any("measured privately" in one for one in pair.verdict.notes)
    whole = release(private, DOMAIN, degree=2, mechanism="mst")
    assert any("measured privately: kg x sex" in one for one in whole.verdict.notes)

    # Labels of a domain from private data are not told.
    restricted = release(commas, replace(DOMAIN, identified_from="private"))
    assert restricted.verdict.misfits == restricted.errors.left_out == ()
    assert "does not fit" not in " ".join([*restricted.messages, *restricted.verdict.sentences])


def test_several_public_tables_are_named_together() -> None:
    """2,000 records at epsilon 50 leave no doubt, whatever is drawn: the headline compares."""
    private, one = table(2000, seed=0), FrameSource(table(60, seed=1), "one")
    both = PublicSources({"one": one, "two": FrameSource(table(60, seed=2), "two")})
    for public, name in ((both, "the public tables"), (one, "the public table")):
        made = jam.synthesize(
            private,
            public,
            domain=DOMAIN,
            epsilon=50.0,
            noise="numpy",
            degree=1,
            mechanism="independent",
        )
        assert f"Better than {name}:" in made.verdict.headline


def with_unreadable_apart() -> Domain:
    content = DOMAIN.to_dict()
    content["attributes"]["kg"]["unreadable"] = "apart"
    return Domain.from_dict(content)


def checked_table(made: jam.FrameRelease, domain: Domain) -> CheckedTable:
    public = encode(table(500, seed=1), domain)
    return CheckedTable(made.table, domain, 2000, made.transcript, made.model, public)


def test_a_column_that_does_not_read_is_known_from_one_that_is_empty() -> None:
    """93% of it has a decimal comma, and the rest a decimal point."""
    private, domain = table(2000, seed=0), with_unreadable_apart()
    texts = private["kg"].astype(str)
    commas = private.assign(kg=texts.where(np.arange(2000) % 100 < 7, texts.str.replace(".", ",")))
    made = release(commas, domain)
    assert made.errors.left_out == ("kg",)
    assert made.verdict.headline.startswith("The domain does not fit kg. In kg, 9")
    assert "of the records cannot be read, and 0.0% in the public table." in made.verdict.headline
    (warning,) = (one for one in made.messages if one.startswith("Warning: The domain"))
    assert "State how the values of kg are written" in warning
    checked = checked_table(made, domain)
    assert checked.fits["kg"].misfit is not None
    assert "sex" not in checked.fits
    assert (checked.agreements["kg"].use_of_tolerance <= 1).all()
    # No row has a text in place of a number: whoever encodes the table finds the release's codes.
    assert 0.9 < made.table["kg"].isna().mean() < 0.96
    assert made.table["kg"].dtype == "float64"

    empty = release(private.assign(kg=private["kg"].where(np.arange(2000) % 100 < 7)), domain)
    assert "of the records are missing, and 0.0% in the" in empty.verdict.headline
    assert "Check or leave out kg." in " ".join(empty.verdict.sentences)
    assert release(private, domain).verdict.misfits == ()


def test_a_few_unreadable_values_fail_no_check() -> None:
    """They are fewer than a misfit, and each row that has one is released without a value."""
    private = table(2000, seed=0)
    words = private["kg"].astype(str).where(np.arange(2000) % 100 >= 4, "unknown")
    made = release(private.assign(kg=words), with_unreadable_apart())
    assert made.verdict.misfits == ()
    assert (checked_table(made, made.domain).agreements["kg"].use_of_tolerance <= 1).all()
    assert made.table["kg"].isna().mean() > 0.03
    # A condition on missing values is on those of the released rows.
    found = answer({"kg": None}, made.transcript, made.domain, made.model, lambda: None)
    assert found.estimate == pytest.approx(80, abs=30)


def test_a_domain_that_fits_is_not_remarked_upon() -> None:
    made = release(table(2000, seed=0), DOMAIN)
    assert made.verdict.misfits == made.errors.left_out == ()
    assert "does not fit" not in " ".join([*made.messages, *made.verdict.sentences])


def test_a_target_that_no_private_record_tested_is_tested_on_public_rows() -> None:
    rng = np.random.default_rng(0)

    def couples(rows: int) -> pd.DataFrame:
        one = rng.choice(["a", "b"], rows)
        other = np.where(rng.random(rows) < 0.9, one, rng.choice(["a", "b"], rows))
        return pd.DataFrame({"one": one, "other": other})

    # Noise hides nothing of so many records.
    private, public = couples(4000), couples(400)
    domain = Domain.from_dict(
        {"attributes": {name: {"values": ["a", "b"]} for name in ("one", "other")}}
    )
    options = {"domain": domain, "epsilon": 5.0, "noise": "numpy", "seed": 1}
    purpose = [{"target": "other"}]
    off, paid = (
        jam.synthesize(private, public, purpose=purpose, evaluation_mode=mode, **options).verdict
        for mode in ("off", "private")
    )

    (said,) = (one for one in off.notes if "held-out public rows" in one)
    assert "Private records tested nothing" in said
    assert not any("held-out public rows" in one for one in paid.notes)
    assert sum("on private records" in one for one in paid.notes) == 1
