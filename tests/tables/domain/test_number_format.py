import pytest

from jam_dagster.errors import DomainError
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.number_format import NumberFormat, format_of


@pytest.mark.parametrize(
    ("pattern", "number", "text"),
    [
        ("$#,##0.00", -1234.5, "-$1,234.50"),
        ("$#,##0.00", -0.001, "$0.00"),
        ("#.##0,00 EUR", 1234567.8, "1.234.567,80 EUR"),
        ("0%", 5.0, "5%"),
        ("0.0#", 2.5, "2.5"),
        ("# ##0,0", 1234.5, "1 234,5"),
        ("R$ 0.00", 7.0, "R$ 7.00"),
        ("$#,##0.00;($#,##0.00)", -1234.5, "($1,234.50)"),
        ("0;(0)", 0.0, "0"),
        ("0.00;0.00-", -1.5, "1.50-"),
        ("0.0°C", -2.5, "-2.5°C"),
        ("0 kg", 12.0, "12 kg"),
    ],
)
def test_a_format_writes_a_number_and_reads_it(pattern, number, text):
    form = NumberFormat(pattern)
    assert form.write(number) == text
    assert form.read(text) == pytest.approx(number, abs=0.01)


def test_what_a_format_reads():
    form = NumberFormat("$#,##0.00")
    read = ["1234.5", " $ 1,234.50 ", "(5)", "$-5", "\u22125", "1234567"]
    assert [form.read(one) for one in read] == [1234.5, 1234.5, -5, -5, -5, 1234567]
    unread = [
        "",
        "$",
        "1,23",
        "12,34.5",
        "5 EUR",
        "--5",
        "-$-5",
        "-5-",
        "(5-",
        "(5",
        "5e3",
        "\u0665",
        "9" * 300,
    ]
    assert [form.read(one) for one in unread] == [None] * len(unread)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "x",
        "=0",
        "+0",
        "-0",
        "@0",
        "\uff1d0",
        "0;=1",
        "#,##0,0",
        "0" * 3,
        5,
        "$" * 99,
        "0;(0",
        "0;(1)",
        "0;1-",
        "0;-",
    ],
)
def test_formats_that_are_refused(pattern):
    refusal = r"the format of numbers .* is not valid: write one such as"
    with pytest.raises(DomainError, match=refusal):
        NumberFormat(pattern)


def test_an_attribute_has_the_decimals_of_its_format():
    entry = {"bounds": [0, 5], "bins": 5, "format": "0.0%"}
    attribute = Domain.from_dict({"attributes": {"a": entry}}).attribute("a")
    assert (attribute.decimals, attribute.dtype) == (1, "str")
    assert attribute.labels[1] == "1.0% to 1.9%"
    for more in ({"decimals": 2}, {"dtype": "float64"}):
        with pytest.raises(DomainError, match=r"'a' cannot be written as '0\.0%'"):
            Domain.from_dict({"attributes": {"a": entry | more}})


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["$1,234.50", "$5.00"], "$#,##0.00"),
        (["1,234", "12"], "#,##0"),
        (["12,50", "3,25"], "0,00"),
        (["EUR 5", "EUR 70"], "EUR 0"),
        (["5 %", "7.5 %"], "0.# %"),
        (["1'234.5"], "#'##0.0"),
        (["10.2kg", "8kg"], "0.#kg"),
        (["-2.5°C", "11.0°C"], "0.0°C"),
        (["70 km/h", "8 km/h"], "0 km/h"),
        (["12.50-", "3.00"], "0.00;0.00-"),
        (["12-", "3-14"], "0;0-"),
        (["A12", "B13"], None),
        (["007 kg", "12 kg"], None),
        (["$5", "($7)"], "$0;($0)"),
        (["10:30"], None),
        (["2024-01-31"], None),
        (["x"], None),
    ],
)
def test_the_format_of_most_texts_is_found(texts, pattern):
    found = format_of(dict.fromkeys(texts, 1))
    assert (found and found.pattern) == pattern


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["0,146 €", "0,307 €", "1,834 €"], "0,000 €"),
        (["815 €", "2.815 €", "12.400 €"], "#.##0 €"),
        (["2.815 kg", "0.4 kg"], "0.0## kg"),
        ([f"0.{'1' * 17}%", f"0.{'2' * 16}%"], f"0.{'0' * 15}%"),
    ],
)
def test_thousands_and_decimals_are_told_apart(texts: list[str], pattern: str) -> None:
    found = format_of(dict.fromkeys(texts, 3))
    assert found is not None
    assert found.pattern == pattern
