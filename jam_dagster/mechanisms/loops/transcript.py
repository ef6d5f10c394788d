"""The transcript of a run: all released results, enough to refit the model."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.files import read_text_bytes, write_whole
from jam_dagster.common.json_text import DAMAGE, damaged, parse_json
from jam_dagster.common.section import parsed
from jam_dagster.common.shown_text import one_line
from jam_dagster.errors import InputError
from jam_dagster.models.measurement import Measurement, Origin
from jam_dagster.models.storage import read_arrays
from jam_dagster.privacy.ledger.release_id import canonical_json
from jam_dagster.privacy.noise.calls import NoiseCall
from jam_dagster.privacy.sensitivity import Neighbours
from jam_dagster.tables import Clique

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

_SAMPLING = frozenset({"search", "chunk_rows"})
"""Parts of a transcript that occur only if rows are not sampled alone and at once."""

_OPTIONAL = _SAMPLING | {"solutions"}
"""Parts that a transcript lacks if the run had none of them."""

MOST_ROUNDS = 100_000
"""The most rounds of a run. Who verifies a release reads and fits each of them again."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round: its selection, its price, its measurement.

    Attributes
    ----------
    index
        The round, from 0.
    clique, source
        The selected marginal and the source of its measurement.
    candidates
        Number of marginals within the size limit (each counts once, for both sources).
    rho_select, rho_measure
        zCDP cost of the selection and of the measurement (0 for public).
    rho_spent
        Cost of all rounds up to this one, lost draws included.
    sigma
        Noise of the measurement in counts, 0 for public.
    size_limit_mb, model_mb
        The size limit of candidates, None without one, and the size of the refitted model.
    l1_residual
        ``||model - measured||_1 / n`` after the refit; NaN without a measurement.
    iterations, loss
        The convergence of the refit: its steps, and the sum over all measurements so far of
        ``||model - measured||_2^2 / (2 n^2)``, each times its weight. 0 and NaN without a
        measurement.
    seconds
        Duration of the round. NaN in a transcript that was read: no guarantee covers the time of
        counting private records, so it is not stored with released results.
    measurement
        None if the measurement was charged and then lost to a crash.
    table
        The name of the measured public table, if public tables have names.
    """

    index: int
    clique: Clique
    source: Origin
    candidates: int
    rho_select: float
    rho_measure: float
    rho_spent: float
    sigma: float
    size_limit_mb: float | None
    model_mb: float
    l1_residual: float
    iterations: int
    loss: float
    seconds: float
    measurement: Measurement | None = field(repr=False)
    table: str = ""

    @property
    def origin(self) -> str:
        """The source of the measurement: ``private``, ``public``, or ``public acs_2018``."""
        return f"{self.source} {self.table}".rstrip()

    def line(self, rounds: int | None) -> str:
        """Return the log line of this round, with the number of rounds if it is known."""
        of = "" if rounds is None else f"/{rounds}"
        cost = f"sigma {self.sigma:,.1f}" if self.source == "private" else "free"
        if self.measurement is None:
            cost = "measurement lost"
        return (
            f"round {self.index + 1}{of}: {one_line(' x '.join(self.clique))} from {self.origin} "
            f"({cost}); {self.candidates} candidates, model {self.model_mb:.2f} MB, "
            f"{self.iterations} steps, rho spent {self.rho_spent:.4g}, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, eq=False)
class Transcript:
    """The ordered rounds of a run.

    Attributes
    ----------
    mechanism, parameters
        Name and settings of the mechanism.
    domain_digest
        Digest of the domain that the cliques refer to.
    records
        n, the number of private records: exact if neighbouring tables share it, else measured with
        noise.
    rho_budget
        The budget of the run.
    rho_spent
        Its cost: every draw, lost ones included.
    rounds
        The rounds, in order.
    ended
        ``all rounds``, ``no candidate fits``, ``budget exhausted`` or, by an operator, ``closed``.
    noise, releasable
        The noise backend, and whether its outcomes may be released.
    neighbours
        The neighbouring relation that the run protects.
    calls
        Every paid draw of the run, in order, lost ones included.
    decisions
        What the run decided by the state of a fit, in order.
    values
        The noisy values that were no marginals, by the names of their draws.
    solutions
        The records that a solver found from outcomes, by the names of their searches.
    workload_digest
        Digest of the run's workload, including its weights.
    search
        The settings of the search for rows, with its workload, by which the table of a release is
        made; None: rows are sampled alone.
    chunk_rows
        The most rows that are sampled at a time; None: all rows are sampled at once.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    domain_digest: str
    records: int
    rho_budget: float
    rho_spent: float
    rounds: tuple[Round, ...]
    ended: str
    noise: str
    releasable: bool
    neighbours: Neighbours
    calls: tuple[NoiseCall, ...]
    workload_digest: str
    search: Mapping[str, Any] | None = None
    chunk_rows: int | None = None
    decisions: tuple[bool, ...] = ()
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    solutions: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:
        picks = " and ".join(f"{count} {source}" for source, count in self.picks.items())
        return f"Transcript({self.mechanism}, {picks} rounds, rho {self.rho_spent:.6g} spent)"

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        facts = {
            "mechanism": self.mechanism,
            "protects": self.neighbours.describe(),
            "rho spent": f"{self.rho_spent:.6g} of {self.rho_budget:.6g}",
            "rounds": " and ".join(f"{count} {source}" for source, count in self.picks.items()),
            "ended": self.ended,
            "noise": self.noise,
        }
        rows = (
            (
                one.index + 1,
                " x ".join(one.clique),
                one.origin,
                "lost"
                if one.measurement is None
                else (f"{one.sigma:,.1f}" if one.source == "private" else ""),
                one.rho_select + one.rho_measure,
                f"{one.model_mb:.2f}",
            )
            for one in self.rounds
        )
        return card(
            "Transcript",
            facts,
            label="" if self.releasable else "not releasable",
            columns=("round", "marginal", "source", "noise (sigma)", "rho", "model MB"),
            rows=rows,
        )

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements, in order."""
        return tuple(r.measurement for r in self.rounds if r.measurement is not None)

    @cached_property
    def picks(self) -> dict[str, int]:
        """Number of rounds that measured private and public marginals.

        If there are any, also the number of rounds with a ``lost`` measurement; the numbers add up
        to all rounds.
        """
        made = Counter("lost" if r.measurement is None else r.source for r in self.rounds)
        lost = {"lost": made["lost"]} if made["lost"] else {}
        return {"private": made["private"], "public": made["public"]} | lost

    def to_frame(self) -> pd.DataFrame:
        """Return one row a round, without the measured values."""
        import pandas as pd

        rows = [
            {
                "round": r.index + 1,
                "clique": " x ".join(r.clique),
                "source": r.origin,
                "candidates": r.candidates,
                "rho_select": r.rho_select,
                "rho_measure": r.rho_measure,
                "rho_spent": r.rho_spent,
                "sigma": r.sigma,
                "size_limit_mb": r.size_limit_mb,
                "model_mb": r.model_mb,
                "l1_residual": r.l1_residual,
                "iterations": r.iterations,
                "loss": r.loss,
                "seconds": r.seconds,
            }
            for r in self.rounds
        ]
        return pd.DataFrame(rows)

    def save(self, directory: Path | UPath) -> None:
        """Write the transcript to a folder: ``transcript.json`` and ``measurements.npz``."""
        directory.mkdir(parents=True, exist_ok=True)
        rounds, tables = [], {}
        for r in self.rounds:
            described = {k: v for k, v in vars(r).items() if k not in ("measurement", "seconds")}
            if not r.table:
                del described["table"]
            described["measured"] = None if r.measurement is None else r.measurement.step
            if r.measurement is None:
                described["l1_residual"] = described["loss"] = None
            rounds.append(described)
            if r.measurement is not None:
                tables[f"round_{r.index}"] = r.measurement.values
        description = {k: v for k, v in vars(self).items() if k not in ("rounds", "picks")}
        description["neighbours"] = self.neighbours.to_dict()
        description["calls"] = [call.to_dict() for call in self.calls]
        description["rounds"] = rounds
        description["values"] = list(self.values)
        tables |= {f"values_{at}": noisy for at, noisy in enumerate(self.values.values())}
        description["solutions"] = list(self.solutions) or None
        tables |= {f"solutions_{at}": found for at, found in enumerate(self.solutions.values())}
        for name in _OPTIONAL:
            if description[name] is None:
                del description[name]
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **tables)
        write_whole(directory / "measurements.npz", buffer.getvalue())
        # The description is written last: if it exists, the transcript is whole.
        text = json.dumps(description, indent=1, allow_nan=False)
        write_whole(directory / "transcript.json", text.encode())

    @classmethod
    def load(cls, directory: Path | UPath) -> Transcript:
        """Read a transcript that `save` wrote.

        Raises
        ------
        InputError
            If the folder does not hold one.
        """
        path = directory / "transcript.json"
        if not path.exists():
            raise InputError(f"{directory} holds no transcript.json; give a folder from save().")
        try:
            return cls._parsed(directory, parse_json(read_text_bytes(path)))
        except InputError:
            raise
        except DAMAGE as fault:
            raise damaged(path, fault) from None

    @classmethod
    def _parsed(cls, directory: Path | UPath, description: dict[str, Any]) -> Transcript:
        path = directory / "transcript.json"
        missing = {one.name for one in fields(cls)} - _OPTIONAL - description.keys()
        if missing:
            raise InputError(
                f"{path} lacks {', '.join(sorted(missing))}: restore it, or read it with the "
                "version of jam-dagster that made it."
            )
        listed = description.pop("rounds")
        if len(listed) > MOST_ROUNDS:
            raise InputError(
                f"{path} has {len(listed):,} rounds, more than the {MOST_ROUNDS:,} of any run: "
                "it is no transcript of a release"
            )
        stored = read_arrays(directory / "measurements.npz")
        rounds = []
        for described in listed:
            described["clique"] = clique = tuple(described["clique"])
            measurement, step = None, described.pop("measured")
            if step is not None:
                index, sigma = described["index"], described["sigma"]
                own = {"source": described["source"], "sigma": sigma, "round": index, "step": step}
                values = stored.pop(f"round_{index}")
                measurement = parsed(Measurement, own, clique=clique, values=values)
            else:
                described["l1_residual"] = described["loss"] = math.nan
            described["seconds"] = math.nan
            rounds.append(parsed(Round, described, measurement=measurement))
        listed = description.pop("values"), description.pop("solutions", [])
        noisy, solutions = (
            {step: stored.pop(f"{what}_{at}") for at, step in enumerate(steps)}
            for what, steps in zip(("values", "solutions"), listed, strict=True)
        )
        if stored:
            raise InputError(
                f"{directory / 'measurements.npz'} holds {min(stored)}, which no round measured: "
                "restore it."
            )
        neighbours = parsed(Neighbours, description.pop("neighbours"))
        calls = tuple(parsed(NoiseCall, call) for call in description.pop("calls"))
        description["decisions"] = tuple(description["decisions"])
        return parsed(
            cls,
            description,
            rounds=tuple(rounds),
            neighbours=neighbours,
            calls=calls,
            values=noisy,
            solutions=solutions,
        )


def subject_of(clique: Clique, source: Origin = "private", table: str = "") -> str:
    """Return the name of a round's marginal in the digests of outcomes."""
    return canonical_json([list(clique), source, table, None])


NOTHING = subject_of(("nothing",), "public")
"""Content that a selection's digest has if no measurement was chosen."""

NOTHING_HELPS = "nothing more helps"
"""Why a run ends where the draw chose no further measurement."""


def sampling_generator(transcript: Transcript) -> np.random.Generator:
    """Return the generator that samples a release's table, a function of the release."""
    return np.random.default_rng(sampling_seed(transcript))


def sampling_seed(transcript: Transcript) -> int:
    """Return the seed of a release's table, a function of the release.

    It is derived from the measurements. They are differentially private, so the seed is, too.
    Sampling again gives the published table.
    """
    return int.from_bytes(measurements_hash(transcript).digest()[:16])


def measurements_hash(transcript: Transcript, prefix: bytes = b"") -> hashlib._Hash:
    """Return the SHA-256 of `prefix` and a transcript's measurements, values and solutions.

    Measurements are differentially private or public, so their hash may be released.
    """
    hashed = hashlib.sha256(prefix)
    for measurement in transcript.measurements:
        hashed.update(repr((measurement.clique, measurement.source)).encode())
        hashed.update(np.ascontiguousarray(measurement.values, dtype="<f8").tobytes())
    for step, values in transcript.values.items():
        hashed.update(repr((step, values.shape)).encode())
        hashed.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    for step, found in transcript.solutions.items():
        hashed.update(repr((step, found.shape)).encode())
        hashed.update(np.ascontiguousarray(found, dtype="<i8").tobytes())
    return hashed
