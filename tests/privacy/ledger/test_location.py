"""Where a ledger lies: variables in its place are expanded, and shown by their names."""

import pickle
from pathlib import Path

import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy import Ledger


def test_variables_in_the_location_are_expanded_and_shown_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_T_BOOKS", str(tmp_path / "tok3n"))
    for given in ("${JAM_T_BOOKS}/ledger.db", "sqlite:///${JAM_T_BOOKS}/ledger.db"):
        ledger = Ledger(given)
        assert ledger.location == given
        assert "tok3n" not in repr(ledger)
        with pytest.raises(BudgetError) as refused:
            ledger.balance("people")
        assert f"--ledger '{given}'" in str(refused.value)
        assert "tok3n" not in str(refused.value)
    Ledger("${JAM_T_BOOKS}/ledger.db").grant("people", epsilon=1.0, delta=1e-9)
    again = pickle.loads(pickle.dumps(ledger))
    assert again.location == ledger.location
    assert again.datasets() == ("people",)
    assert Ledger(tmp_path / "tok3n" / "ledger.db").datasets() == ("people",)
    (tmp_path / "tok3n" / "ledger.db").write_bytes(b"no ledger" * 99)
    with pytest.raises(
        BudgetError, match=r"the ledger \$\{JAM_T_BOOKS\}/ledger.db is not a ledger"
    ):
        Ledger("${JAM_T_BOOKS}/ledger.db").datasets()
    with pytest.raises(SpecificationError, match=r"\$\{JAM_T_BOOKS\} is a folder"):
        Ledger("${JAM_T_BOOKS}")
    # A file where there should be a folder.
    monkeypatch.setenv("JAM_T_BOOKS", str(tmp_path / "tok3n" / "ledger.db"))
    with pytest.raises(BudgetError) as refused:
        Ledger("${JAM_T_BOOKS}/ledger.db").grant("people", epsilon=1.0, delta=1e-9)
    assert "${JAM_T_BOOKS}" in str(refused.value)
    assert "tok3n" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    monkeypatch.delenv("JAM_T_BOOKS")
    with pytest.raises(SpecificationError, match=r"names \$\{JAM_T_BOOKS\}, which is not set"):
        Ledger("${JAM_T_BOOKS}/ledger.db")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("${JAM_T_URL}", "${JAM_T_URL}"),
        ("postgresql://${JAM_T_USER}:s3cret@h/d", "postgresql://${JAM_T_USER}@h/d"),
        ("postgresql://u:${JAM_T_USER}@h/d", "postgresql://u:${JAM_T_USER}@h/d"),
        (
            "postgresql://${JAM_T_USER}@h/d?sslpassword=s3cret",
            "postgresql://${JAM_T_USER}@h/d?sslpassword=***",
        ),
    ],
)
def test_a_password_that_is_written_out_beside_variables_is_not_shown(
    given: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_T_USER", "anna")
    monkeypatch.setenv("JAM_T_URL", "postgresql://anna:s3cret@nowhere.invalid/d")
    ledger = Ledger(given)
    assert ledger.location == shown
    assert b"s3cret" not in pickle.dumps(ledger)
    assert pickle.loads(pickle.dumps(ledger)).location == shown


def test_what_a_driver_says_shows_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAM_T_URL", "postgresql://anna:s3cret@127.0.0.1:1/books")
    with pytest.raises(BudgetError) as refused:
        Ledger("${JAM_T_URL}").datasets()
    said = str(refused.value)
    assert said.startswith("the ledger ${JAM_T_URL} cannot be reached")
    for secret in ("anna", "s3cret", "127.0.0.1", "books"):
        assert secret not in said
