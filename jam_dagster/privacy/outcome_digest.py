"""Digests of stored outcomes in the ledger, which a verifier recomputes.

Outcomes are differentially private, so their digests may be released. Each digest covers the
subject of the outcome, its price and its noise, all of which the release's transcript holds.
"""

from __future__ import annotations

import hashlib

import numpy as np

from jam_dagster.privacy.ledger.key import canonical_digest


def choice_digest(chosen: str, rho: float) -> str:
    """Return the digest of a selection, in hexadecimal.

    `chosen` is the name of the candidate, not its index.
    """
    return canonical_digest({"chosen": chosen, "rho": float(rho)})


def values_digest(values: np.ndarray, sigma: float, rho: float, subject: str = "") -> str:
    """Return the digest of noisy values, in hexadecimal.

    Values of any shape are hashed as float64, little-endian, in C order; `sigma` is in their unit.
    """
    packed = np.ascontiguousarray(values, dtype="<f8").tobytes()
    return canonical_digest(
        {
            "subject": subject,
            "shape": list(np.shape(values)),
            "values": hashlib.sha256(packed).hexdigest(),
            "sigma": float(sigma),
            "rho": float(rho),
        }
    )
