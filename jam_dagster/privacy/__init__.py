"""Privacy accounting, sensitivities, noise and the budget ledger."""

from jam_dagster.privacy.account import Account, UnledgeredAccount
from jam_dagster.privacy.accounting import (
    EVALUATION_SHARE,
    Budget,
    describe_rho,
    epsilon_from_rho,
    exponential_epsilon,
    gaussian_sigma,
    rho_from_epsilon,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.balance import Balance
from jam_dagster.privacy.draws import DirectoryStore, Draws, MemoryStore, OutcomeStore
from jam_dagster.privacy.exact_noise import ExactNoise
from jam_dagster.privacy.ledger import Ledger
from jam_dagster.privacy.ledger_audit import Verification
from jam_dagster.privacy.ledger_schema import Event, Kind, ReleaseKey
from jam_dagster.privacy.noise import Noise, NoiseName, make_noise
from jam_dagster.privacy.release import LedgerAccount, Release
from jam_dagster.privacy.seeded_noise import SeededNoise
from jam_dagster.privacy.sensitivity import JAM_SCORE, MARGINAL_L1, MARGINAL_L2

__all__ = [
    "EVALUATION_SHARE",
    "JAM_SCORE",
    "MARGINAL_L1",
    "MARGINAL_L2",
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
    "Noise",
    "NoiseName",
    "OutcomeStore",
    "Release",
    "ReleaseKey",
    "SeededNoise",
    "UnledgeredAccount",
    "Verification",
    "describe_rho",
    "epsilon_from_rho",
    "exponential_epsilon",
    "gaussian_sigma",
    "make_noise",
    "rho_from_epsilon",
    "rho_within",
    "units_down",
    "units_up",
]
