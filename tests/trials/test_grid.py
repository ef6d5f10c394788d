"""Grids: what a file says, what is refused, and what tells runs apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jam_dagster import __version__
from jam_dagster.errors import (
    InputError,
    PrivateStepError,
    SourceError,
    SpecificationError,
)
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.trials import Run, load_grid, plan, presets, read_rows, run_grid
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import PRIOR_ROWS
from jam_dagster.trials.splits import SplitFiles
from tests.tiers import first_quick
from tests.trials.conftest import GRID


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", first_quick(presets()))
def test_a_preset_can_be_read_and_names_only_what_exists(name: str) -> None:
    grid = load_grid(name)

    runs = grid.runs()

    assert grid.description
    assert runs
    for run in runs:
        if not run.is_baseline:
            run.make()
    assert not grid.missing
    assert len({run.name for run in runs}) == len(runs)


def test_presets_begin_with_the_small_ones() -> None:
    assert presets()[:2] == ["smoke", "quick"]
    assert set(presets()[2:]) == {"aim_paper", "gem_paper", "jam_paper", "pmw_pub_paper"}


def test_smoke_holds_every_mechanism_without_being_told() -> None:
    assert {one.mechanism for one in load_grid("smoke").mechanisms} == set(MECHANISMS)


def test_a_list_of_values_is_tried_one_by_one(tmp_path: Path) -> None:
    grid = load_grid(
        written(
            tmp_path,
            """
splits: [one, two]
mechanisms:
  - mechanism: jam_pgm
    settings: {rounds: [5, 10], alpha: 0.7}
    splits: [two]
  - mechanism: aim
    epsilons: [3]
    seeds: [7]
epsilons: [1]
seeds: 2
baselines: false
""",
        )
    )

    runs = [(run.split, run.mechanism, run.settings, run.epsilon, run.seed) for run in grid.runs()]

    five, ten = (("alpha", 0.7), ("rounds", 5)), (("alpha", 0.7), ("rounds", 10))
    assert runs == [
        ("two", "jam_pgm", five, 1.0, 0),
        ("two", "jam_pgm", ten, 1.0, 0),
        ("two", "jam_pgm", five, 1.0, 1),
        ("two", "jam_pgm", ten, 1.0, 1),
        ("one", "aim", (), 3.0, 7),
        ("two", "aim", (), 3.0, 7),
    ]


def test_settings_of_the_grid_go_to_the_mechanisms_that_have_them(tmp_path: Path) -> None:
    mst = "  - {mechanism: mst, settings: {merge_rare: false}}\nepsilons"
    shared = "settings: {size_limit_mb: 8, iterations: 99}\n"
    path = written(tmp_path, GRID.replace("epsilons", mst) + shared)

    runs = [run for run in load_grid(path).runs() if not run.is_baseline]

    settings = {run.mechanism: dict(run.settings) for run in runs}
    # What a mechanism says of itself comes first.
    jam, aim = ({"rounds": n, "iterations": 10, "size_limit_mb": 8} for n in (2, 6))
    assert settings == {
        "jam_pgm": jam,
        "aim": aim,
        "mst": {"merge_rare": False, "iterations": 99},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour: red", "unknown key 'colour'"),
        ("postgresql://ann:secret@host: 1", "unknown key that holds a URL: allowed are"),
        ("url:ann:secret@host/db: 1", "unknown key that holds a URL: allowed are"),
        ("- a", "must be a mapping"),
        ("splits: [a]\nmechanisms: [aim]", "needs epsilons"),
        ("splits: [a]\nmechanisms: [aims]\nepsilons: [1]", "must be one of .*aim"),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: [0]", "epsilons must be positive"),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: [one]", "epsilons must be positive numbers"),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: []", "epsilons must be a list of at least one"),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: [1]\nseeds: 0", "seeds must be how many"),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: [1]\nseeds: [-1]", "seeds must be how many"),
        (
            "splits: [a]\nmechanisms: [aim]\nepsilons: [1]\ndegree: 0",
            "degree must be a whole",
        ),
        ("splits: [a]\nmechanisms: [aim]\nepsilons: [1]\ndelta: 2", "delta"),
        ("splits: [a, a]\nmechanisms: [aim]\nepsilons: [1]", "two splits called 'a'"),
        ("splits: [{private: x}]\nmechanisms: [aim]\nepsilons: [1]", "needs a name"),
        ("splits: [{name: x, private: p}]\nmechanisms: [aim]\nepsilons: [1]", "private and domain"),
        ("splits: [{name: x, colour: red}]\nmechanisms: [aim]\nepsilons: [1]", "'colour'"),
        ("splits: [a]\nmechanisms: [{name: aim}]\nepsilons: [1]", "needs the key 'mechanism'"),
        ("splits: [a]\nmechanisms: [{mechanism: aim, T: 1}]\nepsilons: [1]", "aim.*'T'"),
        (
            "splits: [a]\nmechanisms: [{mechanism: aim, splits: [b]}]\nepsilons: [1]",
            "names the split 'b'",
        ),
        ("a: [", "not YAML"),
        ("splits: [a]\nmechanisms: [aim]\nworkloads: [random]", "random N with a number N, got"),
        (
            "splits: [{name: a, all_private: true, public_rows: 3}]\nmechanisms: [aim]",
            "all_private of the split 'a' is for published tables",
        ),
        ("splits: []\nmechanisms: [aim]\nepsilons: [1]", "splits must be a list of at least one"),
        (
            "splits: [a]\nmechanisms: [{mechanism: aim, splits: []}]\nepsilons: [1]",
            "aim: splits must be a list of at least one",
        ),
        (
            "splits: [a]\nmechanisms: [aim]\nepsilons: [1]\nseconds: -5",
            "seconds must be .* above 0",
        ),
        (
            "splits: [a]\nmechanisms: [aim]\nepsilons: [1]\nseconds: 1.0e+400",
            "seconds must be .* above 0",
        ),
        ("splits: [a...b]\nmechanisms: [aim]\nepsilons: [1]", "must not contain '...'"),
        (
            "splits: [a]\nmechanisms: [{mechanism: aim, epsilons: [1]}, mst]",
            "needs epsilons, or each of its mechanisms its own",
        ),
        (
            "splits: [a]\nmechanisms: [aim, gem]\nepsilons: [1]\nsettings: {rownds: 3}",
            "rownds is no setting of any of its mechanisms; they have rounds",
        ),
    ],
)
def test_what_is_wrong_with_a_grid_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecificationError, match=said):
        load_grid(written(tmp_path, text))


@pytest.mark.parametrize(
    ("settings", "said"),
    [("{T: 5}", "T is no setting of aim"), ("{rounds: [20, 1]}", "rounds must be")],
)
def test_a_setting_that_no_mechanism_takes_is_found_before_anything_runs(
    tmp_path: Path, settings: str, said: str
) -> None:
    text = f"splits: [a]\nmechanisms: [{{mechanism: aim, settings: {settings}}}]\nepsilons: [1]"

    with pytest.raises(SpecificationError, match=said):
        load_grid(written(tmp_path, text)).runs()


def test_a_grid_that_is_not_there_is_said_with_those_that_are() -> None:
    with pytest.raises(SpecificationError, match="smoke, quick, aim_paper"):
        load_grid("slow")


def test_a_split_without_a_public_table_serves_mechanisms_that_need_none(tmp_path: Path) -> None:
    split = "splits: [{name: x, private: p.csv, domain: d.yaml}]\nepsilons: [1]\nmechanisms: "

    runs = load_grid(written(tmp_path, split + "[aim]")).runs()

    assert {run.mechanism for run in runs} == {"aim", "sampling_floor", "true_one_ways"}
    with pytest.raises(SpecificationError, match="jam_pgm learns from a public table"):
        load_grid(written(tmp_path, split + "[jam_pgm]")).runs()
    tilt = "[{mechanism: tilt, seconds: 7}]"
    alone = load_grid(written(tmp_path, split + tilt))
    (run,) = (one for one in alone.runs() if not one.is_baseline)
    assert dict(run.settings) == {"prior": "uniform"}
    assert (run.title, alone.hint(run)) == ("TILT without public data", 7.0)
    public = "[{mechanism: tilt, settings: {prior: public}}]"
    with pytest.raises(SpecificationError, match="own, or set prior: uniform"):
        load_grid(written(tmp_path, split + public)).runs()


def test_files_of_a_grid_lie_beside_it(tmp_path: Path) -> None:
    text = "splits: [{name: x, private: p.csv, public: /q.csv, domain: d.yaml}]\n"

    (split,) = load_grid(written(tmp_path, text + "epsilons: [1]\nmechanisms: [aim]")).splits

    assert split == SplitFiles("x", str(tmp_path / "p.csv"), "/q.csv", str(tmp_path / "d.yaml"))


def test_a_default_that_is_spelled_out_is_the_same_run() -> None:
    plain = Run("s", "jam_pgm", epsilon=1.0, seed=0)
    spelled = Run("s", "jam_pgm", (("rounds", 30),), epsilon=1.0, seed=0, label="Ours")

    assert plain.key("f") == spelled.key("f")
    others = [
        Run("t", "jam_pgm", epsilon=1.0, seed=0),
        Run("s", "aim", epsilon=1.0, seed=0),
        Run("s", "jam_pgm", (("rounds", 31),), epsilon=1.0, seed=0),
        Run("s", "jam_pgm", epsilon=2.0, seed=0),
        Run("s", "jam_pgm", epsilon=1.0, seed=1),
        Run("s", "jam_pgm", epsilon=1.0, seed=0, delta=1e-6),
        Run("s", "jam_pgm", epsilon=1.0, seed=0, degree=2),
    ]
    keys = {one.key("f") for one in [plain, *others]} | {plain.key("g")}
    assert len(keys) == len(others) + 2


@pytest.mark.parametrize("limit", ["80", "80.0", "'80'", "[80, 80.0, 8e1]"])
def test_a_number_is_the_same_setting_however_it_is_typed(tmp_path: Path, limit: str) -> None:
    own = f"[aim, {{mechanism: aim, settings: {{size_limit_mb: {limit}, rounds: '20'}}}}]"
    text = "splits: [a]\nbaselines: false\nepsilons: [1]\nmechanisms: "
    spelled = Run("a", "aim", (("rounds", 20), ("size_limit_mb", 80.0)), epsilon=1.0, seed=0)
    plain = Run("a", "aim", epsilon=1, seed=0)

    runs = load_grid(written(tmp_path, text + own)).runs()
    alone = load_grid(written(tmp_path, text + own.replace(", rounds: '20'", ""))).runs()

    assert [run.key("f") for run in runs] == [plain.key("f"), spelled.key("f")]
    assert json.dumps(runs[1].settings) == json.dumps(spelled.settings)
    assert alone == [plain]


def test_the_rows_of_the_documentation_are_found_again(jam_data: Path) -> None:
    rows = read_rows(Path("docs/measurements/quick.parquet"))
    # A later version makes its own.
    rows = [{**row, "version": __version__} for row in rows]
    made = list(dict.fromkeys(row["mechanism"] for row in rows if row["kind"] == "mechanism"))

    planned, _ = plan(load_grid("quick").narrowed(mechanisms=made), rows, jam_data)

    # They are older than the rows of the public prior.
    found = {one.key: one.status for one in planned if one.run.mechanism != PRIOR_ROWS}
    assert found == {row["key"]: "done" for row in rows}


def _keyed(row: Row) -> Run:
    settings = tuple(json.loads(row["settings"] or "{}").items())
    names = ("split", "mechanism", "epsilon", "seed", "delta", "degree", "workload")
    return Run(settings=settings, **{name: row[name] for name in names})


def test_a_new_default_of_a_mechanism_renames_its_published_rows() -> None:
    for grid in ("peers", "peers_budgets", "tilt", "tilt_held_out", "tilt_large", "uses"):
        rows = read_rows(Path(f"docs/measurements/{grid}.parquet"))
        held = [row for row in rows if row["kind"] == "mechanism" and row["fingerprint"]]
        assert held
        assert [_keyed(row).key(row["fingerprint"]) for row in held] == [row["key"] for row in held]


@pytest.mark.parametrize("content", [b'a,b,c,d\n0,0,0,"ALICE', b"a,b,c,d\n0,0,\xff,0\n"])
def test_what_a_table_holds_is_not_told_where_it_cannot_be_read(data: Path, content: bytes) -> None:
    (data / "paper" / "small" / "priv.csv").write_bytes(content)
    with pytest.raises(PrivateStepError, match="reading the split 'small' failed") as refused:
        SplitFiles("small").load(data)
    assert refused.value.__context__ is None
    assert not {"ALICE", "0xff"} & {*str(refused.value).split()}


def test_a_preset_without_the_table_to_test_on_tests_on_private_rows(data: Path) -> None:
    for old, new in (("small", "adult_pub025_01"), ("other", "titanic")):
        (data / "paper" / old).rename(data / "paper" / new)
    grid = load_grid("quick")
    assert grid.by_name["adult_pub025_01"].test == "adult"

    for made in (grid.at_hand(data), grid.at_hand(data, requested=True)):
        assert made.by_name["adult_pub025_01"].test is None
        assert made.by_name["adult_pub025_01"].target == "income>50K"
    with pytest.raises(SourceError, match="holds no split 'adult'"):
        replace(grid.by_name["adult_pub025_01"], target="a").load(data)


def test_a_target_is_an_attribute_and_a_test_has_a_target(data: Path) -> None:
    with pytest.raises(SpecificationError, match=r"The split 'small' .* 'e' among a, b, c, d"):
        SplitFiles("small", target="e").load(data)
    with pytest.raises(SpecificationError, match="has a test and no target"):
        SplitFiles("small", test="adult")


def test_a_part_of_a_grid(grid_file: Path) -> None:
    grid = load_grid(grid_file)

    part = grid.narrowed(splits=["other"], mechanisms=["aim"], epsilons=[5.0], seeds=1)

    drawn = [run for run in part.runs() if not run.is_baseline]
    assert [(run.split, run.mechanism, run.epsilon) for run in drawn] == [("other", "aim", 5.0)]
    with pytest.raises(SpecificationError, match="no mechanism 'gem'; it has jam_pgm, aim"):
        grid.narrowed(mechanisms=["gem"])


def test_a_part_that_would_be_less_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    grid = load_grid(
        written(
            tmp_path,
            "splits: [a, b]\nepsilons: [1]\nseeds: 2\nmechanisms:\n"
            "  - {mechanism: aim, splits: [a]}\n"
            "  - {mechanism: mst, splits: [a], seeds: [5, 6, 7]}\n",
        )
    )

    with pytest.raises(SpecificationError, match=r"runs on the split 'b': .* are for a"):
        grid.narrowed(splits=["a", "b"])
    with pytest.raises(SpecificationError, match="has 3 seeds, fewer than 4"):
        grid.narrowed(seeds=4)
    with pytest.raises(SpecificationError, match="has 2 seeds, fewer than 3"):
        grid.narrowed(seeds=3, mechanisms=["aim"])
    part = [run for run in grid.narrowed(splits=["a"], seeds=3).runs() if not run.is_baseline]
    assert [(run.mechanism, run.seed) for run in part] == [
        *(("aim", seed) for seed in (0, 1)),
        *(("mst", seed) for seed in (5, 6, 7)),
    ]


def test_mechanisms_with_epsilons_of_their_own_need_none_of_the_grid(tmp_path: Path) -> None:
    own = "splits: [a]\nbaselines: false\nmechanisms: [{mechanism: aim, epsilons: [2]}]"

    grid = load_grid(written(tmp_path, own))

    assert [run.epsilon for run in grid.runs()] == [2.0]
    assert [run.epsilon for run in grid.narrowed(epsilons=[3]).runs()] == [3.0]


def test_a_grid_that_is_not_utf_8_is_said(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("description: Größe".encode("latin-1"))

    with pytest.raises(SpecificationError, match=r"latin\.yaml is not UTF-8"):
        load_grid(path)


def test_epsilons_that_differ_a_little_have_names_that_differ() -> None:
    near = [Run("s", "aim", epsilon=epsilon, seed=0) for epsilon in (1.0, 1.00000001, 3.16)]

    assert [run.name for run in near] == [
        f"s_aim_epsilon-{epsilon}_seed-0" for epsilon in ("1", "1.00000001", "3.16")
    ]
    assert len({str(run) for run in near}) == 3


def test_without_the_tables_it_says_what_to_do(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAM_DATA", raising=False)

    with pytest.raises(SourceError, match="--data or the variable JAM_DATA"):
        SplitFiles("titanic").load()
    with pytest.raises(SourceError, match=r"holds no split 'titanic'.*it holds other, small"):
        SplitFiles("titanic").load(data)
    # The folder of splits itself will do, too.
    assert SplitFiles("small").load(data / "paper").private.records == 120


def test_a_split_is_told_by_its_tables(data: Path) -> None:
    one, other = (SplitFiles(name).load(data) for name in ("small", "other"))

    assert one.fingerprint == SplitFiles("small").load(data).fingerprint
    assert one.fingerprint != other.fingerprint


def test_the_simulated_split_needs_no_files() -> None:
    split = SplitFiles("census_small").load()

    assert split.private.records == 2000
    # Small enough for mechanisms that hold the whole domain.
    assert split.domain.size() < 1000


def test_a_split_may_have_fewer_public_rows(data: Path) -> None:
    whole = SplitFiles("small").load(data)

    split = SplitFiles("one", of="small", public_rows=1).load(data)

    assert split.name == "one"
    assert split.public is not None
    assert split.public.records == 1
    assert split.private.records == whole.private.records
    assert split.fingerprint != whole.fingerprint
    assert SplitFiles("again", of="small").load(data).fingerprint == whole.fingerprint
    with pytest.raises(InputError, match="fewer than public_rows"):
        SplitFiles("many", of="small", public_rows=41).load(data)
    with pytest.raises(SpecificationError, match="at least 1"):
        SplitFiles("none", of="small", public_rows=0)
    with pytest.raises(SpecificationError, match="both of and private"):
        SplitFiles("both", private="p", domain="d", of="small")


def test_workloads_are_an_axis(data: Path, tmp_path: Path) -> None:
    text = """
splits: [{name: small, target: b}]
mechanisms:
  - {mechanism: aim, workloads: [all, target, skewed, random 2, random 3]}
  - mst
epsilons: [1]
degree: 2
seeds: 1
"""
    runs = [run for run in load_grid(written(tmp_path, text)).runs() if run.mechanism == "aim"]
    made = {run.workload: run.marginals(SplitFiles("small").load(data).domain) for run in runs}

    assert set(made) == {"all", "target b", "skewed", "random 2", "random 3"}
    assert len(made["all"]) == 6
    assert set(made["target b"].cliques) == {("a", "b"), ("b", "c"), ("b", "d")}
    # A larger random workload holds the smaller ones.
    assert set(made["random 2"].cliques) < set(made["random 3"].cliques)
    assert sum(made["skewed"].weights) == 256
    assert len({run.key("f") for run in runs} | {run.name for run in runs}) == 10
    assert runs[0].key("f") == Run("small", "aim", epsilon=1.0, seed=0, degree=2).key("f")
    baselines = load_grid(tmp_path / "mine.yaml").runs()
    assert {run.workload for run in baselines if run.is_baseline} == set(made)
    with pytest.raises(SpecificationError, match="needs a target of the split 'small'"):
        load_grid(written(tmp_path, text.replace(", target: b", ""))).runs()
    wrong = load_grid(written(tmp_path, text.replace("target: b", "target: nowhere")))
    with pytest.raises(SpecificationError, match=r"The split 'small' .*'nowhere'"):
        plan(wrong, [], data)
    many = load_grid(written(tmp_path, text.replace("random 3", "random 7")))
    with pytest.raises(SpecificationError, match="6 marginals, fewer than 7"):
        plan(many, [], data)


def test_all_rows_may_be_private(data: Path) -> None:
    split = SplitFiles("all", of="small", all_private=True).load(data)
    assert split.public is None
    assert split.private.records == 160
    whole = data / "whole" / "alone"
    whole.mkdir(parents=True)
    for name, to in (("domain.json", "domain.json"), ("priv.csv", "table.csv")):
        (whole / to).write_bytes((data / "paper" / "small" / name).read_bytes())
    alone = SplitFiles("alone", all_private=True)
    assert alone.load(data).private.records == 120
    assert not alone.has_public
    with pytest.raises(SourceError, match="holds no split 'alone'"):
        SplitFiles("alone").load(data)


@pytest.mark.slow
def test_a_preset_leaves_out_the_tables_that_are_not_there(data: Path, tmp_path: Path) -> None:
    (data / "paper" / "small").rename(data / "paper" / "titanic")
    adult = data / "whole" / "adult"
    adult.mkdir(parents=True)
    (data / "paper" / "other" / "domain.json").rename(adult / "domain.json")
    (data / "paper" / "other" / "priv.csv").rename(adult / "table.csv")
    grid = load_grid("aim_paper")

    made = {folder: grid.at_hand(data / folder) for folder in (".", "paper", "whole")}

    assert {folder: {run.split for run in one.runs()} for folder, one in made.items()} == {
        ".": {"adult", "titanic"},
        "paper": {"titanic"},
        "whole": {"adult"},
    }
    assert made["paper"].missing["adult"] == (
        f"{data / 'paper'} holds no split 'adult' (a folder with domain.json, priv.csv and pub.csv "
        "or table.csv); it holds titanic."
    )
    with pytest.raises(SourceError, match=r"grid .jam_paper. is there: .*adult_pub"):
        run_grid(load_grid("jam_paper").at_hand(adult), tmp_path / "rows.parquet", data=adult)
    own = load_grid(written(tmp_path, "splits: [a]\nmechanisms: [aim]\nepsilons: [1]"))
    with pytest.raises(SourceError, match="holds no split 'a'"):
        plan(own.at_hand(data), [], data)


def test_the_size_of_the_public_table_is_an_axis(data: Path, tmp_path: Path) -> None:
    text = "splits: [{name: small, public_rows: [3, 9]}]\nepsilons: [1]\nmechanisms: [jam_pgm]"
    splits = load_grid(written(tmp_path, text)).splits
    assert [one.name for one in splits] == ["small_3", "small_9"]
    made = [one.load(data) for one in splits]
    assert [one.public.records for one in made if one.public] == [3, 9]
    assert {one.of for one in made} == {"small"}
