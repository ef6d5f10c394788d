"""Today's code reads what each version stored; see `tests.compat`."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.certificates.refitting import REFIT_TOLERANCE, Refit
from jam_dagster.errors import DamagedOutcomeError, InputError
from jam_dagster.mechanisms import MECHANISMS, Transcript, load_model
from jam_dagster.privacy import DirectoryStore, Ledger
from jam_dagster.privacy.accounting import rho_within
from jam_dagster.release.run import read_errors, read_run
from jam_dagster.tables import CsvSource, Domain, Workload
from tests.cli_bench import run_cli
from tests.compat.freeze import (
    ARCHIVES,
    BOUGHT,
    DRAWN,
    NEXT,
    OTHERS,
    RELEASE,
    answers_of,
    ledger_of,
    materialize,
    standing,
    unpack,
)
from tests.frozen_files import contents
from tests.pipeline.conftest import AS_DAGSTER_WARNS
from tests.small_runs import SYNTHESIZING
from tests.tiers import first_quick

STORED = sorted(path.relative_to(ARCHIVES).with_suffix("") for path in ARCHIVES.glob("*/*.zip"))
RELEASES = [str(one) for one in STORED if one.name not in OTHERS]
TABLES = [one for one in RELEASES if Path(one).name in {*SYNTHESIZING, BOUGHT}]
VERSIONS = [str(one) for one in sorted({path.parent for path in STORED})]

MADE_AGAIN = (".html", ".checks.json")
"""Pages and what comes with them, which each version and library words in its own way."""


def restored(name: str, folder: Path) -> dict[str, Any]:
    """Put an archive into a folder; return what was frozen of it."""
    return unpack(ARCHIVES / f"{name}.zip", folder)


def moved(ledger: Ledger, *partitions: str) -> None:
    """Let releases read their tables where they are now, as an officer does who has moved them."""
    for partition in partitions or ("",):
        ledger.rebind("people", partition=partition, reason="restored from an archive")


def stored_in(root: Path) -> dict[str, Any]:
    """Return what each file of a release or a store promises to be, whatever libraries write it."""
    found: dict[str, Any] = {}
    for name, held in contents(root).items():
        path = root / name
        if path.name == "certificate.json":
            found[name] = Certificate.load(path).digest
        elif path.suffix == ".parquet":
            table = pq.read_table(path)
            found[name] = table.schema.names, table.to_pydict()
        elif not name.endswith(MADE_AGAIN):
            found[name] = held
    return found


def charged(ledger: Ledger) -> dict[str, int]:
    """Return what each draw was charged, in exact units."""
    return dict(standing(ledger)["charged"])


def faults(folder: Path, **known: Any) -> list[str]:
    """Return what the verification of a certificate finds wrong."""
    return [f"{one.name}: {one.message}" for one in verify(folder, **known) if not one.passed]


def synthesize(release: str, *options: str) -> str:
    """Make a release of the working directory from its file; return what the command says."""
    done = run_cli("synthesize", f"{release}.yaml", *options, *RELEASE)
    assert done.exit_code == 0, done.output
    return done.output


def test_every_mechanism_has_an_archive() -> None:
    lacking = MECHANISMS.keys() - {Path(one).name for one in RELEASES}
    assert not lacking, (
        f"No release of {', '.join(sorted(lacking))} is kept below {ARCHIVES.name}/: make one by "
        f"`python -m tests.compat.freeze {' '.join(sorted(lacking))}`, and commit it."
    )


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_read(name: str, tmp_path: Path) -> None:
    frozen = restored(name, tmp_path)
    out = tmp_path / "out"
    model, transcript = load_model(out / "model"), Transcript.load(out / "transcript")
    assert transcript.mechanism == frozen.get("mechanism", Path(name).name)
    assert transcript.domain_digest == model.domain.digest
    for found, wanted in zip(answers_of(model), frozen["model"], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * model.total)
    # What was drawn is what the ledger was charged for.
    outcomes = DirectoryStore(out / "draws")
    assert all(outcomes.get(call.step) for call in transcript.calls)
    spent = sum(charged(Ledger(tmp_path / "ledger.db")).values())
    assert rho_within(spent) >= transcript.rho_spent
    if name in TABLES:
        certificate = Certificate.load(out)
        assert Domain.load(out / "domain.yaml").digest == certificate.domain.digest
        wanted = {file.path: file.sha256 for file in certificate.files.values()}
        assert {path: sha256_of(out / path) for path in wanted} == wanted


@pytest.mark.parametrize("name", first_quick(TABLES))
def test_a_release_is_verified(name: str, tmp_path: Path) -> None:
    restored(name, tmp_path)
    public = CsvSource(str(tmp_path / "pub.csv"))
    found = verify(tmp_path / "out", ledger=Ledger(tmp_path / "ledger.db"), public=public)
    assert [f"{one.name}: {one.message}" for one in found if not one.passed] == []
    # Another version words its sentences otherwise. Everything else is looked at.
    left = {one.name for one in found if not one.checked}
    assert left <= {"the certificate's sentences"}


@pytest.mark.parametrize("name", sorted({*RELEASES} - {*TABLES}))
def test_answers_without_a_table_follow_from_their_transcript(name: str, tmp_path: Path) -> None:
    restored(name, tmp_path)
    Ledger(tmp_path / "ledger.db").verify()
    domain = Domain.load(tmp_path / "domain.yaml")
    transcript = Transcript.load(tmp_path / "out" / "transcript")
    refit = Refit(transcript, domain, Workload.all_k_way(domain, 2), None, {})
    assert refit.fault == ""
    near = refit.closest(load_model(tmp_path / "out" / "model"))
    assert near.apart <= REFIT_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_repeat_is_free_and_makes_nothing_anew(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.db")
    moved(ledger)
    before = stored_in(Path("out")), standing(ledger)
    synthesize("defs", "--out", "out")
    after = standing(ledger)
    assert stored_in(Path("out")) == before[0]
    assert {**after, "head": "", "events": 0} == {**before[1], "head": "", "events": 0}


@pytest.fixture
def office(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what was frozen of a ledger, in whose folder the test runs."""
    monkeypatch.chdir(tmp_path)
    # Else a table breaks its words.
    monkeypatch.setenv("COLUMNS", "200")
    return restored(f"{request.param}/ledger", tmp_path)


every_ledger = pytest.mark.parametrize("office", VERSIONS, indirect=True)


@every_ledger
def test_a_ledger_is_shown_and_audited(office: dict[str, Any]) -> None:
    ledger = Ledger("ledger.db")
    assert standing(ledger) == office
    assert ledger.identity in Path("ledger.id").read_text()
    closed = [Path(one) for one in ("ledger.db", "ledger.db-private/source.key", "signing.pem")]
    assert {stat.S_IMODE(one.stat().st_mode) for one in closed} == {0o600}
    shown = run_cli("ledger", "show", "--ledger", "ledger.db")
    said = " ".join(shown.stdout.split())
    for part in ("raised to", "board of 12 May", "ours", "all are granted", "not public"):
        assert part in said
    assert "Approved and not reserved yet: release 'approved'" in said
    (one,) = json.loads(run_cli("ledger", "show", "--ledger", "ledger.db", "--json").stdout)[
        "datasets"
    ]
    assert one["rho"]["spent"] == pytest.approx(office["spent_units"] * 1e-15, rel=1e-12)
    assert run_cli("ledger", "verify", "--ledger", "ledger.db").stdout.strip() == office["head"]


@every_ledger
def test_a_signature_and_a_withdrawal_hold(office: dict[str, Any]) -> None:
    del office
    by_key = run_cli("certificate", "verify", "signed", "--key", "public.pem")
    assert by_key.exit_code == 0, by_key.output
    assert faults(Path("signed"), ledger=Ledger("ledger.db")) == []
    (withdrawn,) = faults(Path("withdrawn"), ledger=Ledger("ledger.db"))
    assert "the public table was not public" in withdrawn


@every_ledger
@pytest.mark.slow
def test_an_approved_release_is_charged(office: dict[str, Any]) -> None:
    ledger = Ledger("ledger.db")
    moved(ledger)
    synthesize("approved", "--out", "approved", "--signing-key", "signing.pem")
    own = {step: units for step, units in charged(ledger).items() if step not in office["charged"]}
    assert {step.split()[0] for step in own} == {"approved"}
    balance = ledger.balance("people")
    assert balance.spent_units == office["spent_units"] + sum(own.values())
    assert balance.granted_units == office["granted_units"]
    assert faults(Path("approved"), ledger=ledger) == []
    assert faults(Path("signed"), ledger=ledger) == []


@every_ledger
@pytest.mark.slow
def test_an_unfinished_release_goes_on(office: dict[str, Any]) -> None:
    ledger = Ledger("ledger.db")
    before = contents(Path("unfinished/draws"))
    moved(ledger)
    synthesize("unfinished", "--out", "unfinished")
    after = contents(Path("unfinished/draws"))
    assert {name: after[name] for name in before} == before
    assert len(after) > len(before)
    # What was charged is charged once, and the draw that was not stored stays lost.
    assert office["charged"].items() <= charged(ledger).items()
    lost = [one.call.step for one in Certificate.load(Path("unfinished")).draws if one.call.lost]
    assert [f"unfinished {step}" for step in lost] == [list(office["charged"])[-1]]
    assert faults(Path("unfinished"), ledger=ledger, public=CsvSource("pub.csv")) == []


class TestDagster:
    """Code locations whose stores another version filled."""

    pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.slow]

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(
        ("archive", "partition"), [*(("months", one) for one in DRAWN), ("households", None)]
    )
    def test_a_materialization_is_free_and_makes_nothing_anew(
        self, archive: str, partition: str | None, version: str, tmp_path: Path
    ) -> None:
        frozen = restored(f"{version}/{archive}", tmp_path)
        ledger = ledger_of(tmp_path)
        assert standing(ledger) == frozen
        moved(ledger, partition or "")
        before = stored_in(tmp_path / ".jam" / "releases")
        materialize(tmp_path, partition)
        assert stored_in(tmp_path / ".jam" / "releases") == before
        assert charged(ledger) == frozen["charged"]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_the_next_partition_follows_the_one_before(self, version: str, tmp_path: Path) -> None:
        frozen = restored(f"{version}/months", tmp_path)
        ledger = ledger_of(tmp_path)
        moved(ledger, *DRAWN)
        materialize(tmp_path, NEXT)
        made = tmp_path / ".jam" / "releases" / "people"
        certified = made / "release_certificate" / NEXT
        drawn_on = [one.partition for one in Certificate.load(certified).drawn_on]
        assert drawn_on == [*reversed(DRAWN)]
        codes = pq.read_table(made / "public_discretized" / f"{NEXT}.codes.parquet")
        table = pq.read_table(made / "synthetic_records" / f"{DRAWN[-1]}.parquet")
        assert codes.to_pydict() == table.to_pydict()
        own = {one for one in charged(ledger) if one not in frozen["charged"]}
        assert {one.split()[1] for one in own} == {NEXT}
        assert faults(certified, ledger=ledger) == []


def later(path: Path, *keys: str | int) -> None:
    """Put a key into a document, as a later version could."""
    content = json.loads(path.read_text())
    part = content
    for key in keys:
        part = part[key]
    part["novel"] = 1
    path.write_text(json.dumps(content))


def later_draw(path: Path, **parts: Any) -> None:
    """Put a part into an outcome, as a later version could."""
    with np.load(path) as stored:
        held = {name: stored[name] for name in stored.files}
    scalars = json.dumps({**json.loads(str(held.pop("scalars"))), **parts})
    np.savez_compressed(path, scalars=scalars, **held)


READERS: dict[str, tuple[tuple[str | int, ...], Callable[[Path], object]]] = {
    "transcript/transcript.json": (("calls", 0), lambda out: Transcript.load(out / "transcript")),
    "certificate.json": (("sampling",), Certificate.load),
    "run.json": (("release", "key"), read_run),
    "errors.json": (("call",), lambda out: read_errors(out / "errors.json")),
    "model/model.json": ((), lambda out: load_model(out / "model")),
}
"""Files of a release, each with a place for keys and its reader."""


@pytest.mark.parametrize("name", READERS)
def test_what_a_later_version_wrote_is_named_with_the_remedy(name: str, tmp_path: Path) -> None:
    restored(TABLES[0], tmp_path)
    keys, read = READERS[name]
    read(tmp_path / "out")
    later(tmp_path / "out" / name, *keys)
    with pytest.raises(InputError) as refused:
        read(tmp_path / "out")
    file = tmp_path / "out" / name
    said = str(refused.value)
    assert str(file if name != "model/model.json" else file.parent) in said
    assert "unknown key 'novel'" in said or "keyword argument 'novel'" in said
    assert "or read it with the version of jam-dagster that made it" in said


def test_an_outcome_of_a_later_version_is_named_with_the_remedy(tmp_path: Path) -> None:
    restored(TABLES[0], tmp_path)
    outcomes = DirectoryStore(tmp_path / "out" / "draws")
    name = min(outcomes.files)
    assert outcomes.get(name.removesuffix(".npz"))
    later_draw(tmp_path / "out" / "draws" / name, novel=1)
    with pytest.raises(DamagedOutcomeError, match=r"unknown key 'novel'.*made it") as refused:
        outcomes.get(name.removesuffix(".npz"))
    assert name in str(refused.value)


def test_kept_inputs_of_a_later_version_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored(TABLES[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    moved(Ledger("ledger.db"))
    (kept,) = Path("ledger.db-private").glob("contents/*.json")
    later(kept)
    before = contents(Path("out"))
    refused = run_cli("synthesize", "defs.yaml", "--out", "out", *RELEASE)
    assert refused.exit_code == 2
    assert f"{kept.name} is damaged (TypeError: it has the unknown key 'novel')" in refused.stderr
    assert contents(Path("out")) == before


@pytest.mark.parametrize("name", ["run.json", "release.json"])
def test_a_repeat_stops_at_what_a_later_version_wrote(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored(TABLES[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    moved(Ledger("ledger.db"))
    later(Path("out", name))
    # That version keeps its hash, if it keeps one of such a file.
    for kept in Path("ledger.db-private").rglob(f"{name}.sha256"):
        kept.write_text(json.dumps({name: sha256_of(Path("out", name))}))
    before = contents(Path("out"))
    refused = run_cli("synthesize", "defs.yaml", "--out", "out", *RELEASE)
    assert refused.exit_code == 2
    assert f"{name} is damaged (TypeError: it has the unknown key 'novel')" in refused.stderr
    assert contents(Path("out")) == before
