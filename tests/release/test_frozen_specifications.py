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
    "marked": {"sampling": {"mark": "column"}},
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
    "research": {"noise": "numpy"},
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
        "evaluation_mode": "private",
        "evaluation_share": 0.2,
        "search": False,
        "sampling_mark": "comment",
    },
}

DIGESTS = {
    "least": "656053ae12caa891cd7e7110c47360093c65a828ec1607012740385cd6b66a71",
    "numbers as texts": "586f9a5f7382d7160ccd9c22f8dd0ed32cf69fbb90325922ac7d7010837bac52",
    "another edition": "b1f7f8deef9931c787e5302a41f4fc16a20563cca397da453474dacc03f38261",
    "another dataset": "bd6c1ecdfcc9f6ea1fdd6db5dae7e38109e7ec8c283b9babd14a64479952558f",
    "seeded": "abadba934c74b7754eca7c07a2eb3bb04ebf0c57e634cb562e571f69aec608ce",
    "another seed": "6a5532d3863505010acee8b398d29a0c9c70a6d1a6785ca139d3a73040ca4136",
    "add_remove": "142b16a504a844a20251b9b4bfa4ec555d496d4f4c0f86c77fb5f1a1157b4dd4",
    "row limit": "782b64807b9d0f827916e0477baba27c379e5618e87537591c7a5ff7243ebacb",
    "one row": "32a3d2b95690ffaf4417824cba8151a179566b8a6e61c409f5c27bf3dc213e68",
    "share of records": "4222b86ea61e725a9f66982fc463cade2d7f9b7566fa841e458b6d47bd2597a5",
    "mode exact": "49b6a225ee72e6bd71c2ec7b8a5bd61a386d66031667a3696f99c4e976ac5176",
    "mode off": "49b6a225ee72e6bd71c2ec7b8a5bd61a386d66031667a3696f99c4e976ac5176",
    "share of evaluation": "84c7bddce0089da0148727b07c1d4f46ea07287a445656d2c6a1323affc97720",
    "no search": "656053ae12caa891cd7e7110c47360093c65a828ec1607012740385cd6b66a71",
    "marked": "656053ae12caa891cd7e7110c47360093c65a828ec1607012740385cd6b66a71",
    "pairs": "2aa9a3aa70200a0a35387f8ef0a1e3b5aaf76083fc457e1c951049542fdaccb1",
    "marginals": "468d0dca383c1cd3521e2845a9975d29b0cf765c3075f7bf124530528ba67dff",
    "partition": "5dde068b507d76b339252de0cc093fd2fc52a95b29c6092146a81e17c494f821",
    "identified": "656053ae12caa891cd7e7110c47360093c65a828ec1607012740385cd6b66a71",
    "no mechanism": "6107bba2481570f36d99794c6ea654edcd00365c71583cf8c9416d03fe701789",
    "neither of both": "5acac07b9bdbf0dcca888bbeccce0dce138ac1bce2911690d5deee90f3d53624",
    "no public table": "a5d99a1f7560163d823db9018ac0d4824557293864407c68a9c4d02129fb2349",
    "several public tables": "656053ae12caa891cd7e7110c47360093c65a828ec1607012740385cd6b66a71",
    "jam_pgm": "3546a88b5e35b933868677101ad223d22c5110b20348e4c991a5016e3d4d94bb",
    "tilt": "f6675dc9fb5fb2427fa44f05638a96e30228b2b33776e0283ec4036f5f25b4e2",
    "aim": "b7d4d8bbb015f2e54a68bbb249109f5e82a71137a7f6eff37e6d31e30e225152",
    "mst": "77ac7478ce62c202f94aa8b6c9f9cdb4b48f3780284a5421a137a25aab1729c8",
    "independent": "ad92785e3f5f81b897a4a5fa08254e4475b02d20d31e79606de87e2e168ce6c0",
    "mwem_pgm": "0f51cd14300ead6471548a3e0f18f73338b6ead4674a38c3f17c1b59f60411dd",
    "pmw_pub": "1a91eabfa5f9881d54339882f54b444128ef613d29c3aca2cb27463dc32e8816",
    "gem_pub": "819e033d9fc473a17e93c6ddf5af59b0fcf89d0ce47eae6b33b253b02ab0ff44",
    "pep": "7fc157944c964fa0b179b70ee9682c911591352904abcd3fa1e1457a9f1b7dd3",
    "research": "b6fc4d9f46003a297f1b8a827dec04dbb9b410cb5e3af9f3c444bc8c24b902df",
    "a release": "f0eb521c736216f0c22a40e889dc42d3679c0fc318cc4fdf0bf5bffa81579c36",
    "persons": "e7e230fa01283481f0a9729a1a10fefdef443b0cc2024456e0c229204ac37228",
    "the rest": "2ee8b92bd3b8a0b7f4962902336a08a0ac8da4d390fa99a9b6fdad580544c7d8",
}


def file_digest(name: str) -> str:
    spec = ReleaseSpec.from_config(FILE | FILES[name], Path("/release"))
    return spec.release_id(DOMAIN, "wave1" if spec.partitions else "").digest


def option_digest(name: str) -> str:
    given: dict[str, Any]
    given = {"release": "people", "private": "people.csv", "public": "survey.csv", "epsilon": 1.0}
    given |= {"domain": DOMAIN, "mechanism": "jam_pgm"} | OPTIONS[name]
    return release_spec(**given).release_id(DOMAIN).digest


@pytest.mark.parametrize("name", FILES)
def test_a_file_keeps_its_key(name: str) -> None:
    assert file_digest(name) == DIGESTS[name]


@pytest.mark.parametrize("name", OPTIONS)
def test_options_keep_their_key(name: str) -> None:
    assert option_digest(name) == DIGESTS[name]
