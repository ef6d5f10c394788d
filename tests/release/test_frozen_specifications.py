"""Keys of releases in the ledger: where one moves, what was paid is paid again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jam_dagster.release.options import release_spec
from jam_dagster.release.spec import ReleaseSpec
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute

DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("F", "M")),
        CategoricalAttribute("town", ("A", "B", "C")),
        NumericAttribute("age", (0, 18, 65, 100)),
    )
)
FILE: dict[str, Any] = {
    "release": "people",
    "dataset": "people_2026",
    "private": "people.csv",
    "public": "survey.csv",
    "domain": DOMAIN,
    "privacy": {"epsilon": 1.0},
    "mechanism": "jam_pgm",
}
UNIT = {"column": "person", "max_rows": 3}

# What a file says beside what every one does.
FILES: dict[str, dict[str, Any]] = {
    "least": {},
    "numbers as texts": {"privacy": {"epsilon": "1", "delta": "1e-7"}},
    "another edition": {"privacy": {"epsilon": 1, "edition": 2}},
    "another dataset": {"dataset": "visitors", "release": "visits"},
    "seeded": {"privacy": {"epsilon": 1, "noise": "numpy"}},
    "another seed": {"privacy": {"epsilon": 1, "noise": "numpy", "seed": 7}},
    "add_remove": {"privacy": {"epsilon": 1, "neighbours": "add_remove"}},
    "row limit": {"privacy": {"epsilon": 1, "unit": UNIT}},
    "one row": {"privacy": {"epsilon": 1, "unit": {"column": "person"}}},
    "share of records": {
        "privacy": {"epsilon": 1, "neighbours": "add_remove", "unit": UNIT, "records_share": 0.1}
    },
    "mode exact": {"evaluation": {"mode": "exact"}},
    "mode off": {"evaluation": {"mode": False}},
    "share of evaluation": {"evaluation": {"mode": "private", "share": "0.1"}},
    "no search": {"sampling": {"search": False}},
    "pairs": {"workload": {"degree": 2}},
    "marginals": {"workload": {"cliques": [["sex", "town"], ["age"]], "weights": [2, "0.5"]}},
    "partition": {
        "private": "people_{partition}.csv",
        "partitions": {"static": ["wave1", "wave2"]},
    },
    "identified": {"domain": {"identify": "public", "bins": 8, "columns": ["sex", "age"]}},
    "no mechanism": {"mechanism": None},
    "neither of both": {"mechanism": None, "public": None},
    "no public table": {"public": None, "mechanism": "aim"},
    "several public tables": {"public": {"tables": {"a": "a.csv", "b": {"csv": "b.tsv"}}}},
    "jam_pgm": {
        "mechanism": {"name": "jam_pgm", "rounds": "10", "alpha": "9e-1", "size_limit_mb": 20}
    },
    "tilt": {"mechanism": {"name": "tilt", "iterations": 50}},
    "aim": {"mechanism": {"name": "aim", "rounds": None, "tolerance": 0}},
    "mst": {"mechanism": {"name": "mst", "merge_rare": "no"}},
    "independent": {"mechanism": "independent"},
    "mwem_pgm": {"mechanism": {"name": "mwem_pgm", "rounds": 4, "estimator": "mbi"}},
    "pmw_pub": {"mechanism": {"name": "pmw_pub", "rounds": 5}},
    "gem_pub": {"mechanism": {"name": "gem_pub", "loss": "l1", "generator_seed": 3.0}},
    "pep": {"mechanism": {"name": "pep", "gamma": 2}},
}

# Options, as the command line and Python give them.
OPTIONS: dict[str, dict[str, Any]] = {
    "research": {"noise": "numpy", "evaluation_target": "sex"},
    "a release": {"dataset": "people_2026", "edition": "2026-07"},
    "persons": {"privacy_unit": "person", "max_rows": 2, "records_share": 0.1},
    "the rest": {
        "delta": 1e-6,
        "noise": "numpy",
        "seed": 5,
        "neighbours": "add_remove",
        "mechanism": "aim",
        "settings": {"rounds": "40"},
        "cliques": [["sex", "age"]],
        "weights": [2.0],
        "evaluate": "private",
        "evaluation_share": 0.2,
        "search": False,
    },
}

DIGESTS = {
    "least": "15ec62246b649b1156b6023f80fc8d30618227b94e25b4427258cd4b975c9178",
    "numbers as texts": "178731f9bc94ef83b887dcf12f6ac1ce8d102bcf9fd463ce7cb0e13cf419ec2e",
    "another edition": "0887adfd1e868abfdcd192af147b272e2ad1b8e4d9fb1a058ef9e5347fa63cae",
    "another dataset": "af3aafb056a872ce8c5016f0e9a3ed4e68e685195e18503b657d22a6f91591bc",
    "seeded": "634f1e157985f48b2cc78a94965d1cf132bb4344434f0629042edb01a2990bfa",
    "another seed": "155d0b1e045951b06ddd03aa82fdcead241c4095e20b7dbaea62e30d4aea24a9",
    "add_remove": "4ce6f8aeb8ba8765cd2640a31e1db9a4331e730021f7ec7da4b2c3ddc4ae5a86",
    "row limit": "6a7e94e0382b056b270a724d07e9b28d557774f69471ee24640ae0e36147c10e",
    "one row": "e228cd48e80b308a57fa16b9dc6195fc6c9fa85c11fe5609bc43c8e855bf0b72",
    "share of records": "69598093fd7b8555ad43947b225a0d91a530677490bf587dc163906c3a07010f",
    "mode exact": "c093a07392170d90df5be518dfc40548186b1d9940550c2c6db73c0d303b2d2f",
    "mode off": "c093a07392170d90df5be518dfc40548186b1d9940550c2c6db73c0d303b2d2f",
    "share of evaluation": "6266c9406ef14352c870db555fb87e553995bf39de835c9b90b77f233c62de8f",
    "no search": "15ec62246b649b1156b6023f80fc8d30618227b94e25b4427258cd4b975c9178",
    "pairs": "36cda0e01fbf60e4fc1a5660c6082cb585031146e0d7a5f5e7b3bcab0c885338",
    "marginals": "9bfd05f0e1294903ba52a5a9309abd355d3c9d714bebc466889f18e586a06d4c",
    "partition": "f6099ff255c708661375b35d2f6fed229581e648223277db97999ec48571115e",
    "identified": "15ec62246b649b1156b6023f80fc8d30618227b94e25b4427258cd4b975c9178",
    "no mechanism": "5876f5dd2aa8855a9d0bc7a3bea2bc13315f44672143829f1d0f3dbd2d9284db",
    "neither of both": "ca03601c27f964ccec7a0879a24fa2bbd6b3d00bb734dbb321621b9523a276ba",
    "no public table": "ca03601c27f964ccec7a0879a24fa2bbd6b3d00bb734dbb321621b9523a276ba",
    "several public tables": "15ec62246b649b1156b6023f80fc8d30618227b94e25b4427258cd4b975c9178",
    "jam_pgm": "42627ccb0753a2673015ac66aed62a278efedc3ef1c4d28a98686760845619da",
    "tilt": "cd54705dfa13ff389db97e93cab2bf0d4f850cfa18ca267f631eb608f35f02f1",
    "aim": "387c32ea9e667a56a67387be4f23b9a24bf2e8dc307567ad018d0150a91b39ba",
    "mst": "5f268f0fba16c29a1223278f8061393cef3e3aa625eee77f68f87006ab4cc035",
    "independent": "6e66a30556ac583e6821270e395ec54adfd775deaaa56a169a41536a0f98c45f",
    "mwem_pgm": "6898ba535246ae5296ddd6f16dcdcaac807c015d9ec2cb4f90fe278b0cb7cf7d",
    "pmw_pub": "47b1fdc0b46e0e7fd9fdcfb554c9f3afac5766e159f27f1039a491181e892c44",
    "gem_pub": "2b3a1196ccbb46c489815e9ec8f1060816b86c0820d461db5ec7306305d36267",
    "pep": "239dc21d8c74acf4d76da721d8998613b82ab8ce0150531794534ead63882d56",
    "research": "e53bf7aaf7e7ad9d00bd671dab3a3721e7b80c630340fc92ec570c49cb3ea19e",
    "a release": "4571c939e7876cd131d5d8b8078fdf38fbe222ffd53206abeee2948ccaebb165",
    "persons": "0fe5a7c5a9be041f9d2e020f71368f602a31d34ef839f799b039f5b32d115769",
    "the rest": "f92346a1b2b40a4d55ad69d06a5571239bf105b8c5279d80b5eeb38b8e6c8eeb",
}


def file_digest(name: str) -> str:
    spec = ReleaseSpec.from_config(FILE | FILES[name], Path("/release"))
    return spec.key(DOMAIN, "wave1" if spec.partitions else "").digest


def option_digest(name: str) -> str:
    given: dict[str, Any]
    given = {"release": "people", "private": "people.csv", "public": "survey.csv", "epsilon": 1.0}
    given |= {"domain": DOMAIN, "mechanism": "jam_pgm"} | OPTIONS[name]
    return release_spec(**given).key(DOMAIN).digest


@pytest.mark.parametrize("name", FILES)
def test_a_file_keeps_its_key(name: str) -> None:
    assert file_digest(name) == DIGESTS[name]


@pytest.mark.parametrize("name", OPTIONS)
def test_options_keep_their_key(name: str) -> None:
    assert option_digest(name) == DIGESTS[name]
