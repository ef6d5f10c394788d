"""What is said of earlier editions, partitions and specifications before a release is drawn."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger, ReleaseId, describe_rho
from jam_dagster.privacy.ledger.history import history_sentences

FIRST, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db")
    made.grant("people", epsilon=5.0, delta=1e-9)
    return made


def draw(ledger: Ledger, partition: str, edition: str = "1", specification: str = FIRST) -> None:
    release = ledger.open_release(
        ReleaseId("people", "months", specification, partition, edition), {"mechanism": 0.004}
    )
    release.account("mechanism").charge("round-000", 0.003)
    release.close("done")


def told(
    ledger: Ledger,
    partition: str,
    editions: Mapping[str, str],
    *,
    default: str = "1",
    specification: str = FIRST,
) -> list[str]:
    def edition_of(name: str) -> str:
        return editions.get(name, default)

    its = ReleaseId("people", "months", specification, partition, edition_of(partition))
    return history_sentences(ledger.events("people"), its, edition_of, 1e-9)


def test_a_partition_that_is_new_or_only_repeated_has_no_history(ledger: Ledger) -> None:
    assert told(ledger, "2026-01", {}) == []
    draw(ledger, "2026-01")
    assert told(ledger, "2026-01", {}) == []
    assert told(ledger, "2026-02", {}) == []


def test_another_edition_says_what_the_one_before_cost(ledger: Ledger) -> None:
    draw(ledger, "2026-01")
    draw(ledger, "2026-02")
    on = ledger.events()[-1].at[:10]
    (said,) = told(ledger, "2026-02", {"2026-02": "2"})
    assert said == (
        f"Partition 2026-02 was drawn before: edition 1, on {on}, for {describe_rho(0.003, 1e-9)}."
        " This is edition 2, which is drawn and paid again."
    )


def test_a_default_edition_that_was_raised_would_pay_again_for_all(ledger: Ledger) -> None:
    for month in range(1, 6):
        draw(ledger, f"2026-0{month}")
    said = told(ledger, "2026-03", {"2026-05": "1"}, default="2")
    assert said[1] == (
        "A backfill would draw and pay again for 2026-01, 2026-02, 2026-04, which have another"
        " edition now than when they were drawn. An edition for one partition alone is under"
        " privacy.editions."
    )
    (alone,) = told(ledger, "2026-06", {f"2026-0{n}": "1" for n in range(2, 6)}, default="2")
    assert alone.startswith("A backfill would draw and pay again for 2026-01, which has another")


def test_another_specification_is_named_with_its_partitions(ledger: Ledger) -> None:
    for month in range(1, 6):
        draw(ledger, f"2026-0{month}")
    draw(ledger, "2026-06", specification=OTHER)
    (said,) = told(ledger, "2026-07", {}, specification=OTHER)
    assert said == (
        f"Its specification is {OTHER[:12]}, and 2026-01, 2026-02, 2026-03 and 2 more were drawn"
        f" under {FIRST[:12]}: a domain, a workload or a setting was edited since."
    )
    same_month = told(ledger, "2026-05", {}, specification=OTHER)[0]
    assert f"edition 1 under specification {FIRST[:12]}, on" in same_month
