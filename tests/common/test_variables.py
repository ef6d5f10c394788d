"""What messages show of places that environment variables hold."""

from pathlib import Path

import pytest

from jam_dagster.common.variables import expanded, names_variables, with_names
from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables import CsvSource, ParquetSource, SqlSource

URL = "postgresql://anna:s3cr%20t@db.internal:5432/people?sslkey=k3y4"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAM_T_URL", URL)
    monkeypatch.setenv("JAM_T_ROOT", "/srv/tok-3n/")
    monkeypatch.setenv("JAM_T_SHORT", "a")
    monkeypatch.delenv("JAM_T_NONE", raising=False)


def test_variables_and_the_home_are_replaced() -> None:
    assert expanded("${JAM_T_ROOT}x", "it") == "/srv/tok-3n/x"
    assert expanded("$JAM_T_SHORT/x", "it") == "a/x"
    assert expanded("~/x", "it") == str(Path.home() / "x")
    assert expanded("/plain/$x", "it") == "/plain/$x"
    with pytest.raises(SpecificationError, match=r"it names \$\{JAM_T_NONE\}, .* Done\.$"):
        expanded("/x/${JAM_T_NONE}", "it", note="Done.")
    assert names_variables("${JAM_T_ROOT}")
    assert not names_variables("${JAM_T_NONE}/plain")


@pytest.mark.parametrize(
    ("place", "said", "shown"),
    [
        ("${JAM_T_ROOT}x.csv", "no /srv/tok-3n/x.csv there", "no ${JAM_T_ROOT}x.csv there"),
        ("${JAM_T_ROOT}x.csv", "no '/srv/tok-3n' there", "no '${JAM_T_ROOT}' there"),
        ("${JAM_T_ROOT}", "no /srv/tok-3nicety", "no /srv/tok-3nicety"),
        ("${JAM_T_URL}", f"cannot parse {URL}", "cannot parse ${JAM_T_URL}"),
        (
            "${JAM_T_URL}",
            'server at "db.internal", port 5432, user "anna", password s3cr t, key k3y4',
            'server at "***", port 5432, user "***", password ***, key ***',
        ),
        ("postgresql://${JAM_T_SHORT}@h/d", "a b a", "a b a"),
        ("/plain", "no /plain", "no /plain"),
        ("${JAM_T_NONE}", "no ${JAM_T_NONE}", "no ${JAM_T_NONE}"),
    ],
)
def test_names_stand_in_place_of_what_variables_hold(place: str, said: str, shown: str) -> None:
    assert with_names(said, place) == shown


@pytest.mark.parametrize(
    "source",
    [
        CsvSource("${JAM_T_ROOT}none.csv"),
        ParquetSource("${JAM_T_ROOT}none.parquet"),
        SqlSource("sqlite:///${JAM_T_ROOT}none.db", "select 1"),
        SqlSource("${JAM_T_LITE}", "select 1"),
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_errors_of_sources_show_names(
    source: CsvSource | ParquetSource | SqlSource, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_T_LITE", "sqlite:////srv/tok-3n/none.db")
    with pytest.raises(SourceError) as refused:
        source.read(private=private)
    assert "tok-3n" not in str(refused.value)
    assert "${JAM_T_" in str(refused.value)
