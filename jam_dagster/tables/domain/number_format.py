"""Formats of numbers in texts: money, percentages and thousands, as spreadsheets declare them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.values import is_formula

_MOST_DECIMALS = 15
_BLANKS = " \u00a0\u202f"
_OTHERS = r"[^\d#()\"\t\r\n]"
_AFFIX = rf"(?:[{_BLANKS}]{_OTHERS}|(?![-+{_BLANKS}]){_OTHERS}){_OTHERS}{{0,11}}"
_PATTERN = re.compile(
    rf"(?P<prefix>{_AFFIX})??(?:\#(?P<group>[.,'\u2019{_BLANKS}])\#\#)?0"
    rf"(?:(?P<point>[.,])(?P<places>0{{0,15}})(?P<more>\#{{0,15}}))?(?P<suffix>{_AFFIX})?"
)
_WRITTEN = re.compile(
    rf"\s*\(?[-+\u2212]?(?P<prefix>[^\d\s()+\-\u2212.,'\u2019]{{0,3}}[{_BLANKS}]?)[-+\u2212]?"
    rf"(?P<body>\d(?:[\d.,'\u2019{_BLANKS}]*\d)?)"
    rf"(?P<suffix>[{_BLANKS}]?[^\d\s()+\-\u2212.,'\u2019]{{0,4}})[-)]?\s*"
)
# Such as kg, km/h, m² or °C.
_LETTERS = re.compile(r"°|(?:°|[^\W\d_]+/)?[^\W\d_]+[²³]?")
# Marks that separate thousands, and those before decimals; the first that fits is taken.
_STYLES = (
    *((",", "."), (".", ",")),
    *((blank, point) for blank in _BLANKS for point in ",."),
    *(("'", "."), ("\u2019", ".")),
)


@dataclass(frozen=True)
class NumberFormat:
    """Texts of numbers, such as ``$#,##0.00``, ``#.##0,00 EUR`` or ``0.#%``.

    ``#,##0`` separates thousands; a 0 after the point is a decimal that is always written, a ``#``
    one that is written unless it is 0. A number is what is there: that of ``5%`` is 5. With a
    second part, ``0.00;(0.00)`` or ``0.00;0.00-``, negative numbers are written in parentheses or
    with a minus behind. A format whose texts a spreadsheet would run as formulas is a
    `DomainError`.
    """

    pattern: str

    def __post_init__(self) -> None:
        known = isinstance(self.pattern, str)
        first, _, second = self.pattern.partition(";") if known else ("", "", "")
        found = _PATTERN.fullmatch(first)
        alike = found is not None and found["group"] == (found["point"] or "")
        if (
            found is None
            or alike
            or second not in ("", f"({first})", f"{first}-")
            or is_formula(self.write(1.0))
        ):
            raise DomainError(
                f"the format of numbers {str(self.pattern)[:60]!r} is not valid: write one such as"
                " '$#,##0.00', '#.##0,00 EUR' or '0.0%'"
            )

    @cached_property
    def _parts(self) -> dict[str, str]:
        found = _PATTERN.fullmatch(self.pattern.partition(";")[0])
        return {name: part or "" for name, part in found.groupdict().items()} if found else {}

    @property
    def has_unit(self) -> bool:
        """Whether a text is before or after the number."""
        return bool(self._parts["prefix"] or self._parts["suffix"])

    @property
    def groups(self) -> str:
        """The mark that separates thousands, or ""."""
        return self._parts["group"]

    @property
    def point(self) -> str:
        """The mark before decimals, or a point."""
        return self._parts["point"] or "."

    @property
    def is_glued(self) -> bool:
        """Whether letters follow the number without a blank, as in ``10kg`` and some codes."""
        return self._parts["suffix"].isalpha()

    @property
    def decimals(self) -> int:
        """The most decimals that are written."""
        return len(self._parts["places"] + self._parts["more"])

    @cached_property
    def _reader(self) -> re.Pattern[str]:
        prefix, suffix, group, point = (
            re.escape(self._parts[name].strip()) for name in ("prefix", "suffix", "group", "point")
        )
        if self._parts["group"].isspace():
            group = f"[{_BLANKS}]"
        # No thousands begin with a zero: 0,543 is a decimal.
        whole = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}}){{1,9}}|\d{{1,30}}" if group else r"\d{1,30}"
        fraction = rf"(?:{point or '[.]'}(?P<fraction>\d{{1,30}}))?"
        return re.compile(
            rf"(?P<open>\()?(?P<sign>[-+\u2212]?)\s*(?:{prefix})?\s*(?P<inner>[-+\u2212]?)"
            rf"(?P<whole>{whole}){fraction}\s*(?:{suffix})?(?(open)\)|(?P<behind>-?))",
            re.ASCII,
        )

    def read(self, text: str) -> float | None:
        """Return the number that a text writes, with its unit or without; None for other texts."""
        found = self._reader.fullmatch(text.strip()) if len(text) <= 200 else None
        signs = [found[one] for one in ("sign", "inner", "behind") if found[one]] if found else []
        if found is None or len(signs) > 1:
            return None
        digits = re.sub(r"\D", "", found["whole"])
        number = float(f"{digits}.{found['fraction'] or 0}")
        negative = found["open"] or signs not in ([], ["+"])
        return -number if negative else number

    def write(self, number: float) -> str:
        """Return the text of a number."""
        parts = self._parts
        whole, _, fraction = f"{abs(number):,.{self.decimals}f}".partition(".")
        least = len(parts["places"])
        fraction = fraction[:least] + fraction[least:].rstrip("0")
        text = whole.replace(",", parts["group"]) + (parts["point"] + fraction if fraction else "")
        text = f"{parts['prefix']}{text}{parts['suffix']}"
        if number >= 0 or not any(one in "123456789" for one in text):
            return text
        if self.pattern.endswith("-"):
            return f"{text}-"
        return f"({text})" if self.pattern.endswith(")") else f"-{text}"


def format_of(texts: Mapping[str, int]) -> NumberFormat | None:
    """Return the format in which most texts, each in so many rows, write numbers, if any."""
    units: Counter[tuple[str, str]] = Counter()
    bodies: dict[tuple[str, str], list[tuple[str, int]]] = {}
    in_parentheses = behind = False
    for text, rows in texts.items():
        found = _WRITTEN.fullmatch(text) if len(text) <= 60 else None
        if found and _is_unit(found["prefix"], "") and _is_unit("", found["suffix"]):
            unit = found["prefix"], found["suffix"]
            if re.match(r"0\d", found["body"]):
                return None
            units[unit] += rows
            bodies.setdefault(unit, []).append((found["body"], rows))
            in_parentheses = in_parentheses or text.lstrip().startswith("(")
            behind = behind or text.rstrip().endswith("-")
    if not units:
        return None
    unit = units.most_common(1)[0][0]
    best, read = None, 0
    for group, point in _STYLES:
        if _are_thousands([body for body, _ in bodies[unit]], point):
            continue
        plain = NumberFormat(f"#{group}##0{point}{'#' * 15}")
        fits = [(body, rows) for body, rows in bodies[unit] if plain.read(body) is not None]
        known = sum(rows for _, rows in fits)
        if known > read:
            places = {min(len(body.partition(point)[2]), _MOST_DECIMALS) for body, _ in fits}
            thousands = f"#{group}##" if any(group in body for body, _ in fits) else ""
            decimals = "0" * min(places) + "#" * (max(places) - min(places))
            best, read = f"{thousands}0{point + decimals if decimals else ''}", known
            if known == units[unit]:
                break
    if best is None or len(best) > 20:
        return None
    pattern = f"{unit[0]}{best}{unit[1]}"
    negative = f";({pattern})" if in_parentheses else f";{pattern}-" if behind else ""
    return NumberFormat(f"{pattern}{negative}")


def units_of(texts: Iterable[str]) -> list[str]:
    """Return the units of texts that all write numbers, the most frequent first, else nothing."""
    units: Counter[str] = Counter()
    for text in texts:
        found = _WRITTEN.fullmatch(text) if len(text) <= 60 else None
        if not (found and _is_unit(found["prefix"], "") and _is_unit("", found["suffix"])):
            return []
        units[(found["prefix"] or found["suffix"]).strip()] += 1
    return [unit for unit, _ in units.most_common()]


def _are_thousands(bodies: Sequence[str], mark: str) -> bool:
    """Return whether a mark separates thousands: 2.815 together with 815, and no 2815."""
    marked = [body for body in bodies if mark in body]
    plain = [int(body) for body in bodies if body.isdecimal()]
    grouped = re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+", re.ASCII)
    whole = bool(marked) and all(map(grouped.fullmatch, marked))
    return whole and bool(plain) and 100 <= max(plain) < 1000


@lru_cache(maxsize=1000)
def _is_unit(prefix: str, suffix: str) -> bool:
    """Return whether a text before or after a number is a unit, such as of money."""
    text = prefix or suffix
    plain = text.strip()
    if not plain:
        return not text
    if any(unicodedata.category(one) == "Sc" for one in plain) or plain in ("%", "‰"):
        return True
    # A code such as A12 has no blank before its number.
    money = plain != text and len(plain) == 3 and plain.isupper()
    return bool(_LETTERS.fullmatch(plain) and suffix) or (plain.isalpha() and money)
