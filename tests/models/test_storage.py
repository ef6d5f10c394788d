"""Whatever happens to the files of a model, reading it ends in a model or in one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import (
    FittedModel,
    MeasuredAnswers,
    Measurement,
    Model,
    ProductMixture,
    TiltedModel,
    WeightedTable,
    load_model,
)
from jam_dagster.mechanisms.registry import MODELS
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Domain

DOMAIN = Domain.from_sizes({"a": 2, "b": 3})
RNG = np.random.default_rng(0)
KINDS: dict[str, Model] = {
    "graphical": FittedModel(DOMAIN, 6.0, {("a", "b"): RNG.normal(size=(2, 3))}),
    "answers": MeasuredAnswers(
        DOMAIN, 6.0, [Measurement(("a", "b"), "private", RNG.normal(size=(2, 3)), 1.0, 0)]
    ),
    "weighted_table": WeightedTable(Support.of_domain(DOMAIN), 6.0, RNG.normal(size=6)),
    "tilted": TiltedModel(
        FittedModel(DOMAIN, 6.0, {("a", "b"): RNG.normal(size=(2, 3))}),
        WeightedTable(Support.of_domain(DOMAIN), 6.0, RNG.normal(size=6)),
        0.25,
    ),
    "product_mixture": ProductMixture(
        DOMAIN, 6.0, tuple(RNG.dirichlet(np.ones(size), 4) for size in DOMAIN.shape)
    ),
}

every_kind = pytest.mark.parametrize("kind", MODELS)


def stored(kind: str, folder: Path) -> Path:
    KINDS[kind].save(folder)
    (arrays,) = folder.glob("*.npz")
    return arrays


@every_kind
def test_arrays_that_are_cut_off_are_refused(kind: str, tmp_path: Path) -> None:
    arrays = stored(kind, tmp_path)
    whole = arrays.read_bytes()
    for size in (0, 10, 40, len(whole) // 2, len(whole) - 10):
        arrays.write_bytes(whole[:size])
        with pytest.raises(InputError, match="damaged"):
            load_model(tmp_path)


@every_kind
def test_a_byte_that_is_wrong_is_refused_or_does_not_matter(kind: str, tmp_path: Path) -> None:
    arrays = stored(kind, tmp_path)
    whole = arrays.read_bytes()
    wanted = KINDS[kind].marginal(("a", "b"))
    refused = 0
    for place in range(0, len(whole), 5):
        spoiled = bytearray(whole)
        spoiled[place] ^= 0xFF
        arrays.write_bytes(spoiled)
        try:
            read = load_model(tmp_path)
        except InputError:
            refused += 1
        else:
            np.testing.assert_array_equal(read.marginal(("a", "b")), wanted)
    assert refused > len(whole) / 20


@every_kind
@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": "%s"}', '{"kind": "%s", "domain": 3}'])
def test_a_description_that_is_none_is_refused(kind: str, text: str, tmp_path: Path) -> None:
    stored(kind, tmp_path)
    (tmp_path / "model.json").write_text(text.replace("%s", kind))
    with pytest.raises(InputError, match="damaged"):
        load_model(tmp_path)


@every_kind
@pytest.mark.parametrize("missing", ["model.json", "*.npz"])
def test_a_folder_that_lacks_a_file_is_refused(kind: str, missing: str, tmp_path: Path) -> None:
    stored(kind, tmp_path)
    (gone,) = tmp_path.glob(missing)
    gone.unlink()
    with pytest.raises(InputError, match=f"holds no {gone.name}"):
        load_model(tmp_path)


def test_no_class_reads_another_s_folder(tmp_path: Path) -> None:
    stored("answers", tmp_path)
    readers: list[Any] = [FittedModel, WeightedTable, ProductMixture]
    for reader in readers:
        with pytest.raises(InputError, match=r"holds no \w+\.npz"):
            reader.load(tmp_path)
