"""Make the archives of this version: `python -m tests.compat.freeze [NAME ...]`.

They are made with the arithmetic of an older processor (`tests/processors.py`), so that every
machine reads what another one made. Their tables are drawn at random, and their keys and secrets
are of no other use: they are made for the archive and protect nothing.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from jam_dagster.mechanisms import MECHANISMS, load_model, make_mechanism, mechanism_class
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.models.base import Model
from jam_dagster.privacy import Budget, DirectoryStore, Draws, ExactNoise, Ledger, ReleaseId
from jam_dagster.tables import Domain, EncodedTable, Workload
from jam_dagster.version import __version__
from tests.budgets import FIXED, PUBLIC_N
from tests.cli_bench import PEOPLE, definition, run_cli
from tests.processors import PROCESSORS, ROOT
from tests.small_runs import SYNTHESIZING

ARCHIVES = Path(__file__).parent
FOLDER = ARCHIVES / __version__.rpartition(".")[0]
"""The archives of this version."""

FROZEN = "frozen.json"
"""The file of an archive with what its reader must find."""

RELEASE = ("--ledger", "ledger.db", "--no-checks", "--no-report")
SMALL = {"rounds": 5, "iterations": 50, "components": 20, "pretraining_iterations": 50}
"""Settings of a small run, for mechanisms that have them."""

MONTHS = ("2026-01", "2026-02", "2026-03")
DRAWN, NEXT = MONTHS[:2], MONTHS[2]
"""The partitions of the archived store, and the one that its reader draws."""

PAGES = ("release_report", "release_report_restricted")
"""Assets that nobody reads again, which take most room."""


class StoppedError(BaseException):
    """A run was stopped on purpose."""


def make_release(name: str) -> None:
    """Make a release by a mechanism that samples rows, in the working directory."""
    write_tables()
    Ledger("ledger.db").grant("people", epsilon=20.0, delta=1e-9, policy=PUBLIC_N)
    write_definition(name)
    synthesize("out")
    freeze(model=answers_of(load_model(Path("out/model"))))


def make_bought() -> None:
    """Make a release whose domain its budget buys, in the working directory."""
    write_tables()
    priv = pd.read_csv("priv.csv")
    texts = {name: priv[name].map("value {}".format) for name in [*PEOPLE][:2]}
    priv.assign(**texts).to_csv("priv.csv", index=False)
    Ledger("ledger.db").grant("people", epsilon=20.0, delta=1e-3, selections=1e-4, policy=PUBLIC_N)
    types = {name: "category" if name in texts else "integer" for name in PEOPLE}
    domain = {"identify": "paid", "types": types}
    privacy = {"epsilon": 8.0, "delta": 1e-4}
    write_definition("tilt", public=None, domain=domain, privacy=privacy)
    synthesize("out")
    freeze(model=answers_of(load_model(Path("out/model"))), mechanism="tilt")


def make_answers(name: str) -> None:
    """Make a run of a mechanism that samples no rows, charged to a ledger, from Python."""
    write_tables()
    domain = Domain.from_sizes(PEOPLE)
    domain.save("domain.yaml")
    private = EncodedTable.from_frame(domain, pd.read_csv("priv.csv"))
    ledger, budget = Ledger("ledger.db"), Budget(4.0, 1e-9)
    ledger.grant("people", epsilon=20.0, delta=1e-9, policy=PUBLIC_N)
    release = ledger.open_release(ReleaseId("people", "answers", name), budget.shares())
    draws = Draws(ExactNoise(), release.account("mechanism"), DirectoryStore(Path("out/draws")))
    run = make_mechanism(name).run(private, None, Workload.all_k_way(domain, 2), draws)
    release.close("mechanism ended")
    run.model.save(Path("out/model"))
    run.transcript.save(Path("out/transcript"))
    freeze(model=answers_of(run.model))


def make_ledger() -> None:
    """Make a ledger with what an officer decides, and releases in every state."""
    write_tables()
    people = ("--ledger", "ledger.db", "--dataset", "people")
    grant = ("ledger", "grant", *people, "--delta", "1e-9", "--records", "public")
    grant += ("--ground", FIXED["ground"])
    command(*grant, "--epsilon", "4", "--reason", "policy of 2026")
    command(*grant, "--epsilon", "9", "--reason", "board of 12 May")
    command("ledger", "by-hand", *people[:2], "--reason", "all are granted")
    key = ("--ledger", "ledger.db", "--out", "signing.pem", "--reason", "the archive's own")
    Path("public.pem").write_text(command("ledger", "key", "new", *key).stdout)

    write_definition("independent", release="signed")
    command("ledger", "adopt", *people[:2], "--reason", "ours", "defs.yaml")
    synthesize("signed", "--signing-key", "signing.pem")
    write_definition("independent", release="withdrawn")
    synthesize("withdrawn")
    why = "the public table was not public"
    command("certificate", "withdraw", "withdrawn", *people[:2], "--reason", why)

    write_definition("aim", release="unfinished")
    with pytest.MonkeyPatch.context() as patch:
        stop_after(5, patch)
        with pytest.raises(StoppedError):
            synthesize("unfinished")
    Path("defs.yaml").rename("unfinished.yaml")

    command(*grant, "--epsilon", "9", "--approval", "required")
    write_definition("mst", release="approved")
    asked = run_cli("synthesize", "defs.yaml", "--out", "approved", *RELEASE)
    digest = asked.output.partition("--specification ")[2].split()[0]
    approve = ("--release", "approved", "--specification", digest, "--reason", "read")
    command("ledger", "approve", *people, *approve)
    Path("defs.yaml").rename("approved.yaml")
    freeze(**standing(Ledger("ledger.db")))


def make_months() -> None:
    """Make a store of two partitions, of which the second follows the first."""
    attributes = {
        "private": "private_{partition}.csv",
        "public": {"previous_release": {"first": "pub.csv"}},
        "partitions": "monthly",
        "start": "2026-01-01",
        "mechanism": {"name": "tilt", "iterations": 20},
        "evaluation": {"mode": "exact"},
    }
    defs = write_project(attributes, PEOPLE)
    for seed, month in enumerate(MONTHS):
        table(150, seed).to_csv(defs / f"private_{month}.csv", index=False)
    table(60, 9).to_csv(defs / "pub.csv", index=False)
    for month in DRAWN:
        materialize(Path(), month)
    freeze(**standing(ledger_of(Path())))


def make_households() -> None:
    """Make a store of a release of two tables."""
    given = {"private": "private_persons.csv", "public": "public_persons.csv"}
    persons = Domain.from_sizes({"job": 3, "sex": 2}).to_dict()
    attributes = {
        "private": "private.csv",
        "public": "public.csv",
        "children": {"persons": {**given, "key": "household", "max": 3, "domain": persons}},
        "mechanism": {"name": "mst", "iterations": 20},
        "evaluation": {"mode": "private", "share": 0.2},
    }
    defs = write_project(attributes, {"region": 2})
    for seed, side in enumerate(("private", "public")):
        rng = np.random.default_rng(seed)
        keys = np.arange(100)
        roots = pd.DataFrame({"household": keys, "region": rng.integers(0, 2, 100)})
        children = pd.DataFrame({"household": np.repeat(keys, rng.integers(0, 4, 100))})
        for name, size in (("job", 3), ("sex", 2)):
            children[name] = rng.integers(0, size, len(children))
        roots.to_csv(defs / f"{side}.csv", index=False)
        children.to_csv(defs / f"{side}_persons.csv", index=False)
    materialize(Path())
    freeze(**standing(ledger_of(Path())))


OTHERS: dict[str, Callable[[], None]] = {
    "ledger": make_ledger,
    "months": make_months,
    "households": make_households,
}
"""The archives that are of no mechanism."""

BOUGHT = "bought"
"""The archive of a release whose domain was bought."""


def table(rows: int, seed: int) -> pd.DataFrame:
    """Return a coded table whose attributes depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows)
    return pd.DataFrame(
        {name: (size * (first + rng.random(rows)) / 2).astype(int) for name, size in PEOPLE.items()}
    )


def write_tables() -> None:
    """Write a private and a public table and their domain to the working directory."""
    table(150, 0).to_csv("priv.csv", index=False)
    table(60, 9).to_csv("pub.csv", index=False)
    Path("domain.json").write_text(json.dumps(PEOPLE))


def write_definition(name: str, **attributes: Any) -> None:
    """Write the file of a release by a mechanism."""
    public = {} if mechanism_class(name).takes_public != "cannot" else {"public": None}
    known = settings_of(mechanism_class(name))
    asked: dict[str, Any] = {
        "privacy": {"epsilon": 1.0 if "release" in attributes else 4.0},
        "mechanism": {"name": name, **{key: few for key, few in SMALL.items() if key in known}},
        "workload": {"degree": 2},
        "evaluation": {"mode": "private"},
    }
    definition(**{**asked, **public, **attributes})


def synthesize(out: str, *options: str) -> None:
    """Make the release of the file in the working directory."""
    command("synthesize", "defs.yaml", "--out", out, *RELEASE, *options)


def command(*arguments: str) -> Any:
    """Run a command; exit with what it says if it fails."""
    done = run_cli(*arguments)
    if isinstance(done.exception, StoppedError):
        raise done.exception
    if done.exit_code:
        raise SystemExit(f"{' '.join(arguments[:2])}: {done.output}")
    return done


def stop_after(draws: int, patch: pytest.MonkeyPatch) -> None:
    """Stop this process's next run as if it was killed, once that many outcomes are stored."""
    put, stored = DirectoryStore.put, []

    def counted(self: DirectoryStore, step: str, outcome: dict[str, Any]) -> None:
        if len(stored) == draws:
            raise StoppedError
        put(self, step, outcome)
        stored.append(step)

    patch.setattr(DirectoryStore, "put", counted)


def write_project(attributes: dict[str, Any], domain: dict[str, int]) -> Path:
    """Write a project with one release and its resources; return the folder of the release."""
    project = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "frozen"\n'
    Path("pyproject.toml").write_text(project)
    defs = Path("frozen/defs")
    budget = {"people": {"epsilon": 9.0, "delta": 1e-9, **FIXED}}
    components = {
        "people": {
            "type": "jam_dagster.SyntheticRelease",
            "attributes": {
                "release": "people",
                "dataset": "people",
                "domain": "domain.yaml",
                "privacy": {"epsilon": 2.0, "delta": 1e-9},
                "workload": {"degree": 2},
                **attributes,
            },
        },
        "resources": {
            "type": "jam_dagster.ReleaseResources",
            "attributes": {"home": ".jam", "budgets": budget},
        },
    }
    for name, component in components.items():
        (defs / name).mkdir(parents=True)
        (defs / name / "defs.yaml").write_text(yaml.safe_dump(component, sort_keys=False))
    for package in (defs, defs.parent):
        (package / "__init__.py").touch()
    people = defs / "people"
    Domain.from_sizes(domain).save(people / "domain.yaml")
    ledger = ledger_of(Path()).location
    command("ledger", "adopt", "--ledger", ledger, "--reason", "ours", str(people / "defs.yaml"))
    return people


def ledger_of(project: Path) -> Ledger:
    """Return the ledger of an archived project."""
    return Ledger(project / ".jam" / "ledger.sqlite")


def materialize(project: Path, partition: str | None = None) -> None:
    """Materialize the release of a project as its code location has it, without pages."""
    import dagster as dg

    for loaded in [one for one in sys.modules if one.partition(".")[0] == "frozen"]:
        del sys.modules[loaded]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project.resolve())
        # The environment may name a home of its own.
        patch.delenv("JAM_SIGNING_KEY", raising=False)
        definitions = dg.load_from_defs_folder(path_within_project=project.resolve() / "frozen")
    keys = definitions.resolve_asset_graph().executable_asset_keys
    with dg.DagsterInstance.ephemeral() as instance:
        done = definitions.resolve_job_def("people_release").execute_in_process(
            instance=instance,
            partition_key=partition,
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            asset_selection=sorted(one for one in keys if one.path[-1] not in PAGES),
        )
    if not done.success:
        failed = [one.step_failure_data.error for one in done.all_events if one.is_step_failure]
        raise SystemExit("\n".join(map(str, failed)))


def answers_of(model: Model) -> list[list[float]]:
    """Return what a model answers on each pair of attributes."""
    pairs = Workload.all_k_way(model.domain, 2).cliques
    return [[float(one) for one in model.marginal(pair).ravel()] for pair in pairs]


def standing(ledger: Ledger) -> dict[str, Any]:
    """Return what a ledger says, in exact units."""
    proof, balance = ledger.verify(), ledger.balance("people")
    return {
        "identity": ledger.identity,
        "events": proof.events,
        "head": proof.head,
        "granted_units": balance.granted_units,
        "reserved_units": balance.reserved_units,
        "spent_units": balance.spent_units,
        "charged": {
            f"{one.release} {one.partition} {one.step}".replace("  ", " "): one.units
            for one in ledger.events()
            if one.kind.value == "charged"
        },
    }


def freeze(**found: Any) -> None:
    """Write what a reader of the archive in the working directory must find."""
    Path(FROZEN).write_text(json.dumps(found))


def pack(folder: Path, archive: Path) -> None:
    """Store all files of a folder in one file, with their modes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in sorted(folder.rglob("*")):
            if "__pycache__" not in path.parts and path.suffix != ".html":
                file.write(path, path.relative_to(folder))


def unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """Put what is in an archive into a folder, with its modes; return what was frozen of it."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
        for one in reversed(file.infolist()):
            (folder / one.filename).chmod(stat.S_IMODE(one.external_attr >> 16))
    frozen: dict[str, Any] = json.loads((folder / FROZEN).read_text())
    return frozen


def names() -> Iterator[str]:
    """Yield the names of all archives."""
    yield from sorted(MECHANISMS)
    yield BOUGHT
    yield from OTHERS


def make(name: str) -> None:
    """Make what an archive holds in the working directory."""
    if name in OTHERS:
        OTHERS[name]()
    elif name == BOUGHT:
        make_bought()
    elif name in SYNTHESIZING:
        make_release(name)
    else:
        make_answers(name)


def main(options: Sequence[str]) -> None:
    """Make the archives named, or all, as the oldest of the emulated processors."""
    if f"## {__version__} - unreleased" not in (ROOT / "CHANGELOG.md").read_text():
        raise SystemExit(
            f"{__version__} was released, and its archives stay as they are. Raise the version: its"
            " archives are another folder."
        )
    if "--here" not in options:
        PROCESSORS[0].run("-m", "tests.compat.freeze", "--here", *options, check=True)
        return
    FOLDER.mkdir(exist_ok=True)
    for name in [one for one in options if one != "--here"] or names():
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            make(name)
            pack(Path(folder), FOLDER / f"{name}.zip")
            os.chdir(ROOT)
        print(f"{name}: {(FOLDER / f'{name}.zip').stat().st_size:,} bytes", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
