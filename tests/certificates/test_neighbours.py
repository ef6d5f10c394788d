"""Every relation's runs certify: the draws are what the relation asks for, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.certificates import Asked, certify, released_files, verify, write_table
from jam_dagster.mechanisms import JamPgm, sampling_generator
from jam_dagster.privacy import Draws, Neighbours, ReleaseKey, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.release_key import canonical_digest, specification_of
from jam_dagster.tables import Domain, EncodedTable, Workload, decode

RELATIONS = [Neighbours(relation, k) for relation in ("replace_one", "add_remove") for k in (1, 3)]


@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
def test_a_run_under_every_relation_certifies(neighbours: Neighbours, tmp_path: Path) -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, size, 300) for name, size in domain.sizes.items()})
    table = EncodedTable.from_frame(domain, frame)
    asked = Asked(10.0, 1e-9, {"mechanism": 1.0})
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), neighbours=neighbours)
    mechanism = JamPgm(rounds=3, iterations=30)
    made = mechanism.run(table, table, Workload.all_k_way(domain, 2), draws)
    seed = sampling_generator(made.transcript)
    write_table(
        decode(made.model.sample(made.transcript.records, seed), seed), tmp_path / "table.csv"
    )
    domain.save(tmp_path / "domain.yaml")
    made.model.save(tmp_path / "model")
    made.transcript.save(tmp_path / "transcript")
    specification = specification_of(
        epsilon=asked.epsilon,
        delta=asked.delta,
        protection={
            "neighbours": neighbours.relation,
            "unit": {"max_rows": neighbours.max_rows},
        },
        mechanism={"name": mechanism.name, **mechanism.parameters()},
        workload={},
        evaluation_share=0.0,
        domain=domain.digest,
    )
    certificate = certify(
        tmp_path,
        released_files(
            table=tmp_path / "table.csv",
            domain=tmp_path / "domain.yaml",
            transcript=tmp_path / "transcript",
            model=tmp_path / "model",
        ),
        key=ReleaseKey("people", "small", canonical_digest(specification)),
        specification=specification,
        asked=asked,
        transcript=made.transcript,
        domain=domain,
    )
    certificate.save(tmp_path)
    assert [one for one in verify(tmp_path) if not one.passed] == []

    for wrong in RELATIONS:
        replace(certificate, neighbours=wrong).save(tmp_path)
        failed = {one.name for one in verify(tmp_path) if not one.passed}
        assert ({"the draws", "the transcript", "the settings"} <= failed) is (wrong != neighbours)
