"""The arrows of the house: what may import what, and what an import may cost."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.modules import IN_ONE_WORKER, read_module

pytestmark = IN_ONE_WORKER

ROOT = Path(__file__).parents[1]
REFUSAL = ROOT / "jam_dagster" / "pipeline" / "budget" / "refusal.py"

# A folder may import itself and those below it in this list.
LAYERS = [
    "cli",
    "pipeline",
    "trials",
    "release",
    "keys",
    "reports",
    "certificates",
    "evaluation",
    "mechanisms",
    "models",
    "privacy",
    "tables",
    "common",
    "errors",
    "version",
]
# So do the folders within `tables`.
ROOMS_OF_TABLES = ["sources", "drafting", "codes", "domain"]
# They work without Dagster.
WITHOUT_PIPELINE = ["cli"]

# Who may import a library that is heavy, or that one place should wrap: path prefixes.
OWNERS = {
    "dagster": ("jam_dagster/pipeline/", "assets/", "resources/"),
    "dagster_shared": ("jam_dagster/pipeline/", "assets/", "resources/"),
    "great_expectations": ("jam_dagster/evaluation/expectations/",),
    "adbc_driver_postgresql": ("jam_dagster/tables/sources/postgres.py",),
    "mbi": ("jam_dagster/models/graphical/mbi_bridge.py",),
    "jax": ("jam_dagster/models/mixture/jax_runtime.py",),
    "optax": ("jam_dagster/models/mixture/adam_step.py",),
    "opendp": ("jam_dagster/privacy/noise/exact.py",),
    "scipy": (
        "jam_dagster/models/weighted/oracle.py",
        "jam_dagster/evaluation/sample_equivalent.py",
        "jam_dagster/evaluation/expectations/validation.py",
    ),
    "sklearn": ("jam_dagster/evaluation/utility.py",),
    "typer": ("jam_dagster/cli",),
    "alembic": ("jam_dagster/privacy/ledger/migrations/",),
    # Windows lacks them.
    "fcntl": ("jam_dagster/common/operating_system.py",),
    "pwd": ("jam_dagster/common/operating_system.py",),
    "resource": ("jam_dagster/common/operating_system.py",),
}

HEAVY = [
    "jax",
    "optax",
    "opendp",
    "great_expectations",
    "mbi",
    "dagster",
    "altair",
    "vl_convert",
    "sklearn",
    "adbc_driver_postgresql",
]

# Much that runs reads no table, and opens neither ledger nor store.
TABLES_AND_STORES = ["pandas", "pyarrow", "sqlalchemy", "upath", "fsspec"]


def python_files() -> list[Path]:
    folders = ["jam_dagster", "assets", "resources"]
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported_by(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every import in a file, those inside functions too."""
    for line, module, name in read_module(path).imports:
        # `from jam_dagster import pipeline` names a folder as surely as `import` does.
        yield line, f"{module}.{name}" if name else module


def folder_of(module: str) -> str | None:
    """Return the folder (or top-level module) of the package that a dotted name lies in."""
    parts = module.split(".")
    if parts[0] != "jam_dagster" or len(parts) < 2:
        return None
    return parts[1] if parts[1] in LAYERS else None


def may_import(importer: str, imported: str) -> bool:
    if importer in WITHOUT_PIPELINE and imported == "pipeline":
        return False
    return LAYERS.index(importer) <= LAYERS.index(imported)


def test_imports_point_downward() -> None:
    wrong = []
    for path in python_files():
        inside = path.relative_to(ROOT).with_suffix("").parts
        if inside[0] != "jam_dagster" or inside == ("jam_dagster", "__init__"):
            continue
        importer = inside[1]
        assert importer in [*LAYERS, "__main__"], f"{path}: a folder without a place"
        for line, module in imported_by(path):
            imported = folder_of(module)
            if imported is not None and not may_import(importer, imported):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_imports_within_tables_point_downward() -> None:
    root = "jam_dagster.tables"
    wrong = []
    for place, room in enumerate(ROOMS_OF_TABLES):
        allowed = tuple(f"{root}.{one}." for one in ROOMS_OF_TABLES[place:])
        paths = list((ROOT / "jam_dagster" / "tables" / room).glob("*.py"))
        assert len(paths) > 1, f"{room}: no such folder"
        wrong += [
            f"{path.relative_to(ROOT)}:{line} imports {module}"
            for path in paths
            for line, module in imported_by(path)
            if module.startswith(root) and not module.startswith(allowed)
        ]
    assert not wrong, "\n".join(wrong)


def test_nothing_in_the_package_imports_its_face() -> None:
    """The face hands on names of the top, such as the component."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in (ROOT / "jam_dagster").rglob("*.py")
        for line, module in imported_by(path)
        if module.split(".")[0] == "jam_dagster" and folder_of(module) is None
    ]
    assert not wrong, "\n".join(wrong)


def modules() -> dict[str, Path]:
    """Return the modules of the package by dotted name."""
    found = {}
    for path in (ROOT / "jam_dagster").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of every ``from jam_dagster... import name`` in a file."""
    for _, module, name in read_module(path).imports:
        if name and module.startswith("jam_dagster"):
            yield module, name


def arrows(known: dict[str, Path]) -> dict[str, set[str]]:
    """Return which modules each module imports, wherever in it, through faces to the definition.

    A face is an ``__init__.py``: it only hands on names, and is no module here.
    """
    faces = {
        name: {alias: (module, alias) for module, alias in imports_of(path)}
        for name, path in known.items()
        if path.name == "__init__.py"
    }

    def definition(module: str, name: str) -> str:
        if f"{module}.{name}" in known:
            return f"{module}.{name}"
        if name in faces.get(module, {}):
            return definition(*faces[module][name])
        return module

    return {
        name: {definition(*one) for one in imports_of(path)} - {name, *faces}
        for name, path in known.items()
        if name not in faces
    }


def circle_in(graph: dict[str, set[str]]) -> set[str]:
    """Return nodes that lie on circles, or between them; none where there is no circle."""
    left = dict(graph)
    while True:
        ends = {name for name, targets in left.items() if not targets & left.keys()}
        if not ends:
            break
        left = {name: targets for name, targets in left.items() if name not in ends}
    while True:
        starts = left.keys() - {target for targets in left.values() for target in targets}
        if not starts:
            return set(left)
        left = {name: targets for name, targets in left.items() if name not in starts}


def test_circles_are_found() -> None:
    line = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert circle_in(line) == set()
    assert circle_in(line | {"c": {"b"}}) == {"b", "c"}


def test_no_modules_import_each_other() -> None:
    """Those under TYPE_CHECKING and within functions count like any other."""
    graph = arrows(modules())
    assert len(graph) > 200
    assert circle_in(graph) == set()


def test_nothing_in_the_package_imports_the_code_location() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in (ROOT / "jam_dagster").rglob("*.py")
        for line, module in imported_by(path)
        if module.split(".")[0] in ("assets", "resources")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", OWNERS)
def test_library_is_imported_by_its_owner_only(library: str) -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for path in python_files()
        for _, module in imported_by(path)
        if module.split(".")[0] == library
    }
    strangers = {path for path in importers if not path.startswith(OWNERS[library])}
    assert not strangers, f"{library} is imported by {sorted(strangers)}"


def test_private_names_of_dagster_are_imported_in_one_place() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for path in python_files()
        for _, module in imported_by(path)
        if module.startswith(("dagster._", "dagster_shared"))
    }
    assert importers == {"jam_dagster/pipeline/dagster_internals.py"}


def run_fresh(code: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def imported_modules(statement: str, watched: Sequence[str] = HEAVY) -> dict[str, object]:
    return run_fresh(
        "import json, sys, time\n"
        "start = time.perf_counter()\n"
        f"{statement}\n"
        "seconds = time.perf_counter() - start\n"
        f"heavy = [name for name in {list(watched)} if name in sys.modules]\n"
        "print(json.dumps({'seconds': seconds, 'heavy': heavy}))"
    )


def test_importing_the_package_is_quick_and_light() -> None:
    found = imported_modules("import jam_dagster")
    assert found["heavy"] == []
    # It takes milliseconds; the bound is for busy machines.
    assert float(str(found["seconds"])) < 1.0


@pytest.mark.slow
def test_folders_below_the_pipeline_are_light() -> None:
    folders = [one for one in LAYERS if one not in ("pipeline", "errors")]
    statement = ", ".join(f"jam_dagster.{folder}" for folder in folders)
    assert imported_modules(f"import {statement}", [*HEAVY, "alembic"])["heavy"] == []


def test_the_command_line_waits_for_nothing_that_it_may_not_need() -> None:
    # Every run is a process of its own: what a run without ledger and report would import for
    # nothing would be paid each time.
    watched = [*HEAVY, *TABLES_AND_STORES, "jinja2", "scipy"]
    found = imported_modules("import jam_dagster.cli.commands, jam_dagster.release", watched)
    assert found["heavy"] == []


@pytest.mark.slow
def test_the_component_is_light_but_for_dagster() -> None:
    # Dagster imports every registered module, and looks at all its names, in every step process.
    statement = "import jam_dagster.pipeline"
    assert imported_modules(statement, [*HEAVY, *TABLES_AND_STORES])["heavy"] == ["dagster"]


def test_the_version_is_said_by_itself() -> None:
    statement = "from jam_dagster.cli import main; sys.argv = ['', '--version']; main()"
    assert imported_modules(statement, ["typer", "pydantic", "numpy", "logging"])["heavy"] == []


def test_no_module_reads_events_of_an_instance() -> None:
    """Ledger, stores, reports and certificates cannot believe what they do not look at."""
    reads = {"event_log_storage", "get_event_records", "get_materialized_partitions", "all_logs"}
    assert "report_run_canceling" in read_module(REFUSAL).attributes
    for path in (ROOT / "jam_dagster").rglob("*.py"):
        names = read_module(path).attributes
        assert not names & reads, path
        # A database's driver has the third.
        of_events = [one for one in names if one.startswith(("fetch_", "get_latest_"))]
        assert not {*of_events} - {"fetch_record_batch"}, path


@pytest.mark.slow
def test_a_tilt_imports_nothing_of_other_mechanisms() -> None:
    found = imported_modules(
        "import tempfile, jam_dagster as jam\n"
        "from jam_dagster.tables import health_survey\n"
        "tables = (one[['sex', 'income']] for one in health_survey(300, 300))\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    paid = {'ledger': f'{folder}/ledger.db', 'dataset': 'people'}\n"
        "    paid |= {'mechanism': 'tilt', 'records_public': True}\n"
        "    assert jam.synthesize(*tables, epsilon=1.0, **paid).releasable",
        ["jax", "jaxlib", "optax", "chex", "mbi", "networkx", "sklearn", "dagster"],
    )
    assert found["heavy"] == []


@pytest.mark.slow
def test_the_component_is_found_by_name() -> None:
    found = run_fresh(
        "import json\n"
        "from dagster.components.core.package_entry import discover_entry_point_package_objects\n"
        "keys = discover_entry_point_package_objects()\n"
        "print(json.dumps({'found': sorted(f'{k.namespace}.{k.name}' for k in keys"
        " if k.namespace == 'jam_dagster')}))"
    )
    assert found["found"] == [
        "jam_dagster.ReleaseResources",
        "jam_dagster.SyntheticRelease",
    ]
