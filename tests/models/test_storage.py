"""Whatever happens to the files of a model, reading it ends in a model or in one clear error."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import FittedModel, Measurement, Model, load_model
from jam_dagster.models.base import labelled_counts
from jam_dagster.models.bayesian.model import BayesianNetwork
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.models.storage import KINDS, MOST_TIMES_PACKED, MOST_UNPACKED, read_arrays
from jam_dagster.models.tilted.corrected import with_moments
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Domain, EncodedTable

DOMAIN = Domain.from_sizes({"a": 2, "b": 3})
RNG = np.random.default_rng(0)
EXAMPLES: dict[str, Model] = {
    "bayesian_network": BayesianNetwork(
        DOMAIN, 6.0, {("b",): RNG.dirichlet(np.ones(3)), ("b", "a"): RNG.dirichlet(np.ones(2), 3)}
    ),
    "graphical": FittedModel(DOMAIN, 6.0, {("a", "b"): RNG.normal(size=(2, 3))}),
    "answers": MeasuredAnswers(
        DOMAIN, 6.0, [Measurement(("a", "b"), "private", RNG.normal(size=(2, 3)), 1.0, 0)]
    ),
    "weighted_table": WeightedTable(Support.of_domain(DOMAIN), 6.0, RNG.normal(size=6)),
    "tilted": TiltedModel(
        FittedModel(DOMAIN, 6.0, {("a", "b"): RNG.normal(size=(2, 3))}),
        WeightedTable(Support.of_domain(DOMAIN), 6.0, RNG.normal(size=6)),
        0.25,
        before=WeightedTable(Support.of_domain(DOMAIN), 6.0, RNG.normal(size=6)),
    ),
    "product_mixture": ProductMixture(
        DOMAIN, 6.0, tuple(RNG.dirichlet(np.ones(size), 4) for size in DOMAIN.shape)
    ),
}

A = np.arange(20) % 2
EXAMPLES["corrected"] = with_moments(
    TiltedModel(
        FittedModel(DOMAIN, 6.0, {("a",): np.zeros(2), ("b",): np.zeros(3)}),
        WeightedTable(Support(EncodedTable(DOMAIN, (A, 2 * A))), 6.0, np.zeros(20)),
        0.25,
    )
)

every_kind = pytest.mark.parametrize("kind", KINDS)


def stored(kind: str, folder: Path) -> Path:
    EXAMPLES[kind].save(folder)
    (arrays,) = folder.glob("*.npz")
    return arrays


@every_kind
def test_a_marginal_has_labels_where_they_are_asked_for(kind: str) -> None:
    model = EXAMPLES[kind]
    plain, shown = model.marginal(("b", "a")), model.marginal(("b", "a"), labelled=True)
    assert list(shown) == ["count"]
    np.testing.assert_array_equal(shown["count"].to_numpy().reshape(plain.shape), plain)
    assert shown.index.names == ["b", "a"]
    for name in ("a", "b"):
        labels = list(DOMAIN.attribute(name).labels)
        assert list(dict.fromkeys(shown.index.get_level_values(name))) == labels
        assert list(model.marginal((name,), labelled=True).index) == labels
    # The order of the domain stays.
    across = shown["count"].unstack("a")
    np.testing.assert_array_equal(across.to_numpy(), plain)


def test_labels_are_those_of_charts_in_the_order_of_the_domain() -> None:
    domain = Domain.from_dict(
        {
            "attributes": {
                "age": {"edges": [0, 18, 100], "integer": True},
                "sex": {"values": ["m", "f"], "nullable": True},
            }
        }
    )
    counts = np.arange(6.0).reshape(2, 3)
    shown = labelled_counts(domain, ["age", "sex"], counts)
    assert shown.loc[("18 to 100", "(null)"), "count"] == 5
    assert list(shown["count"].unstack("sex").columns) == ["m", "f", "(null)"]
    clash = Domain.from_dict({"attributes": {"a": {"values": ["(null)"], "nullable": True}}})
    assert list(labelled_counts(clash, ["a"], np.ones(2)).index) == ["(null)", "(null)"]
    assert labelled_counts(domain, [], np.array(7.0))["count"].tolist() == [7]


@every_kind
def test_a_model_is_loaded_as_it_was_saved(kind: str, tmp_path: Path) -> None:
    made = EXAMPLES[kind]
    made.save(tmp_path)
    read = load_model(tmp_path)
    assert type(read) is type(made)
    assert repr(read) == repr(made)
    assert (read.total, read.cliques, read.size_mb) == (made.total, made.cliques, made.size_mb)
    for clique in (("a",), ("b",), ("b", "a")):
        np.testing.assert_array_equal(read.marginal(clique), made.marginal(clique))


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
    wanted = EXAMPLES[kind].marginal(("a", "b"))
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
        with pytest.raises(InputError, match="holds a model of the kind 'answers', not"):
            reader.load(tmp_path)


def npy(values: np.ndarray, shape: str | None = None) -> bytes:
    """An array as NumPy writes it, with another shape in its header."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    written = buffer.getvalue()
    own = str(values.shape).encode()
    wanted = own if shape is None else shape.encode()
    # The header is padded, so that its length stays.
    return written.replace(own + b", }" + b" " * (len(wanted) - len(own)), wanted + b", }", 1)


def packed(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("log_weights.npy", content)
    return path


def refused(path: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(InputError, match=rf"{path.name}.*{why}") as error:
        read_arrays(path)
    assert not isinstance(error.value.__cause__, MemoryError)


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lists counts; here it lists more than there is."""
    path = packed(tmp_path / "potentials.npz", npy(np.zeros(100_000)))
    content = path.read_bytes()
    whole = len(npy(np.zeros(100_000))).to_bytes(4, "little")
    listed = content.rindex(whole)
    huge = (MOST_UNPACKED + 1).to_bytes(4, "little")
    path.write_bytes(content[:listed] + huge + content[listed + 4 :])
    refused(path, r"unpacks to 1,073,741,825 bytes, more than the 1,073,741,824", monkeypatch)


def test_a_larger_archive_may_unpack_to_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jam_dagster.models.storage.MOST_UNPACKED", 1)
    path = packed(tmp_path / "potentials.npz", npy(RNG.normal(size=1000)))
    assert read_arrays(path)["log_weights"].shape == (1000,)
    sparse = packed(path, npy(np.zeros(100_000)))
    assert MOST_TIMES_PACKED * sparse.stat().st_size < 800_000
    refused(path, "unpacks to 800,128 bytes", monkeypatch)


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ("(9, 10**12)", zipfile.ZIP_DEFLATED),
        ("(999999999999,)", zipfile.ZIP_DEFLATED),
        ("(5,)", zipfile.ZIP_DEFLATED),
        (None, zipfile.ZIP_BZIP2),
        (None, zipfile.ZIP_LZMA),
    ],
)
def test_an_array_of_another_length_than_it_says_is_not_made(
    shape: str | None, method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = npy(np.zeros(6), shape)
    refused(packed(tmp_path / "potentials.npz", content, method), "damaged", monkeypatch)


@pytest.mark.parametrize("kind", ["|S0", "<U0", "|V0"])
def test_values_that_take_no_bytes_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An archive holds any number of them, and as numbers each would take eight bytes."""
    header = {"descr": kind, "fortran_order": False, "shape": (10**11,)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    refused(packed(tmp_path / "potentials.npz", buffer.getvalue()), "damaged", monkeypatch)


def test_python_objects_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "potentials.npz", log_weights=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        read_arrays(tmp_path / "potentials.npz")
