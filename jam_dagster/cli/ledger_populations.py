"""`jam-dagster ledger population` and `join`, and how populations are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jam_dagster.cli.console import print_result
from jam_dagster.cli.ledger_view import amounts_in_json, balance_table
from jam_dagster.cli.options import AsJson, DatasetOption, LedgerOption, ReasonOption, check_reason

if TYPE_CHECKING:
    from rich.console import Console

    from jam_dagster.privacy.ledger.population import Population

PopulationOption = Annotated[
    str, typer.Option(metavar="NAME", help="The population: people who are in several datasets.")
]


def population(
    ledger: LedgerOption,
    population: PopulationOption,
    epsilon: Annotated[
        float, typer.Option(help="The most that all releases of all its datasets may spend.")
    ],
    delta: Annotated[float, typer.Option(help="delta of the budget.")],
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Grant a population its whole budget, or replace it.

    ```
    jam-dagster ledger population --ledger ledger.db --population residents \
        --epsilon 3 --delta 1e-9 --reason "policy of 2026"
    ```

    A population is the people of several datasets, which join it by `jam-dagster ledger join`. A
    release reserves in the budget of its dataset and in that of the population, or is refused. The
    budget is for a lifetime and cannot be lowered below what is spent and reserved.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    made = Ledger(ledger).grant_population(population, epsilon=epsilon, delta=delta, reason=reason)
    _print_population(made, f"Population {population} is granted", as_json=as_json)


def join(
    ledger: LedgerOption,
    dataset: DatasetOption,
    population: PopulationOption,
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Make a dataset belong to a population, for good.

    ```
    jam-dagster ledger join --ledger ledger.db --dataset people \
        --population residents --reason "the same people as in the survey"
    ```

    Its spent and reserved amounts count in the population's budget at once, and must fit.
    No dataset leaves its population: what was released of its people stays released.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    made = Ledger(ledger).join(dataset, population, reason=reason)
    _print_population(
        made, f"{dataset} belongs to population {population}, which has", as_json=as_json
    )


def _print_population(population: Population, said: str, *, as_json: bool) -> None:
    from jam_dagster.privacy import describe_rho

    print_result(
        population_in_json(population),
        f"{said} {describe_rho(population.granted, population.delta)};"
        f" {describe_rho(population.remaining, population.delta)} is left.",
        as_json=as_json,
    )


def print_populations(console: Console, populations: Iterable[Population]) -> None:
    """Print the balance of each population, and which datasets belong to it."""
    for one in populations:
        title = f"Population {one.name} (epsilon at delta {one.delta:g})"
        console.print(title, markup=False, style="italic", soft_wrap=True)
        console.print(balance_table(one))
        joined = ", ".join(one.uses) or "none"
        console.print(
            f"Its datasets: {joined}. None has more left than it.", markup=False, soft_wrap=True
        )


def population_in_json(population: Population) -> dict[str, Any]:
    """Return a population's balance and its datasets."""
    return {
        "population": population.name,
        "epsilon": population.epsilon,
        "delta": population.delta,
        "datasets": [*population.uses],
        **amounts_in_json(population),
    }
