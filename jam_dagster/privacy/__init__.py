"""Privacy accounting, sensitivities, noise and the budget ledger.

The ledger's classes are imported on first use: they bring SQLAlchemy, and code that accounts,
draws or experiments without a ledger should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jam_dagster.common.choices import EVALUATION_SHARE, RECORDS_SHARE, NoiseName
from jam_dagster.privacy.account import Account, UnledgeredAccount
from jam_dagster.privacy.accounting import (
    Budget,
    advantage_from_rho,
    describe_advantage,
    describe_rho,
    epsilon_from_advantage,
    epsilon_from_rho,
    exponential_epsilon,
    gaussian_sigma,
    rho_from_epsilon,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.draws import Draws
from jam_dagster.privacy.ledger.key import ReleaseKey
from jam_dagster.privacy.noise.base import Noise
from jam_dagster.privacy.noise.calls import NoiseCall
from jam_dagster.privacy.noise.exact import ExactNoise
from jam_dagster.privacy.noise.make import make_noise
from jam_dagster.privacy.noise.seeded import SeededNoise
from jam_dagster.privacy.outcome_store import DirectoryStore, MemoryStore, OutcomeStore
from jam_dagster.privacy.protection import Protection
from jam_dagster.privacy.sensitivity import (
    JAM_SCORE,
    MARGINAL_L1,
    MARGINAL_L2,
    REPLACE_ONE,
    Neighbours,
)

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.audit import Verification
    from jam_dagster.privacy.ledger.balance import Balance
    from jam_dagster.privacy.ledger.journal import Event, Kind
    from jam_dagster.privacy.ledger.ledger import Ledger
    from jam_dagster.privacy.ledger.policy import Policy
    from jam_dagster.privacy.ledger.reservation import LedgerAccount, Release

__all__ = [
    "EVALUATION_SHARE",
    "JAM_SCORE",
    "MARGINAL_L1",
    "MARGINAL_L2",
    "RECORDS_SHARE",
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
    "LedgerAccount",
    "MemoryStore",
    "Neighbours",
    "Noise",
    "NoiseCall",
    "NoiseName",
    "OutcomeStore",
    "Policy",
    "Protection",
    "Release",
    "ReleaseKey",
    "SeededNoise",
    "UnledgeredAccount",
    "Verification",
    "advantage_from_rho",
    "describe_advantage",
    "describe_rho",
    "epsilon_from_advantage",
    "epsilon_from_rho",
    "exponential_epsilon",
    "gaussian_sigma",
    "make_noise",
    "rho_from_epsilon",
    "rho_within",
    "units_down",
    "units_up",
]

_OF_THE_LEDGER = {
    "Balance": "ledger.balance",
    "Event": "ledger.journal",
    "Kind": "ledger.journal",
    "Ledger": "ledger.ledger",
    "LedgerAccount": "ledger.reservation",
    "Policy": "ledger.policy",
    "Release": "ledger.reservation",
    "Verification": "ledger.audit",
}


def __getattr__(name: str) -> object:
    if name in _OF_THE_LEDGER:
        return getattr(import_module(f"{__name__}.{_OF_THE_LEDGER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
