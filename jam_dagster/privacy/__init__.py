"""Privacy accounting, sensitivities, noise and the budget ledger.

The ledger's classes are imported on first use: they bring SQLAlchemy, and code that accounts,
draws or experiments without a ledger should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jam_dagster.privacy.account import Account, UnledgeredAccount
from jam_dagster.privacy.accounting import (
    Budget,
    advantage_from_rho,
    describe_advantage,
    describe_certainty,
    describe_rho,
    epsilon_from_advantage,
    epsilon_from_rho,
    gaussian_sigma,
    rho_within,
)
from jam_dagster.privacy.draws import Draws
from jam_dagster.privacy.ledger.release_id import ReleaseId
from jam_dagster.privacy.noise.base import Noise
from jam_dagster.privacy.noise.calls import NoiseCall
from jam_dagster.privacy.noise.exact import ExactNoise
from jam_dagster.privacy.noise.make import make_noise
from jam_dagster.privacy.noise.seeded import SeededNoise
from jam_dagster.privacy.outcome_store import DirectoryStore, MemoryStore
from jam_dagster.privacy.protection import Protection
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.balance import Balance
    from jam_dagster.privacy.ledger.journal import Event, Kind
    from jam_dagster.privacy.ledger.ledger import Ledger
    from jam_dagster.privacy.ledger.policy import Policy
    from jam_dagster.privacy.ledger.reservation import Reservation

__all__ = [
    "REPLACE_ONE",
    "Account",
    "Balance",
    "Budget",
    "DirectoryStore",
    "Draws",
    "Event",
    "ExactNoise",
    "Kind",
    "Ledger",
    "MemoryStore",
    "Neighbours",
    "Noise",
    "NoiseCall",
    "Policy",
    "Protection",
    "ReleaseId",
    "Reservation",
    "SeededNoise",
    "UnledgeredAccount",
    "advantage_from_rho",
    "describe_advantage",
    "describe_certainty",
    "describe_rho",
    "epsilon_from_advantage",
    "epsilon_from_rho",
    "gaussian_sigma",
    "make_noise",
    "rho_within",
]

_OF_THE_LEDGER = {
    "Balance": "ledger.balance",
    "Event": "ledger.journal",
    "Kind": "ledger.journal",
    "Ledger": "ledger.ledger",
    "Policy": "ledger.policy",
    "Reservation": "ledger.reservation",
}


def __getattr__(name: str) -> object:
    if name in _OF_THE_LEDGER:
        return getattr(import_module(f"{__name__}.{_OF_THE_LEDGER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
