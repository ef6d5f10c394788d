"""What the ledger keeps of an outcome once it is stored: a digest that a verifier recomputes.

Outcomes are differentially private, so their digests may leave. Each covers what the outcome is
of, its price and its noise, all of which the transcript of the release holds.
"""

from __future__ import annotations

import hashlib

import numpy as np

from jam_dagster.privacy.ledger.key import canonical_digest


def choice_digest(chosen: str, rho: float) -> str:
    """Return the digest of a selection, in hexadecimal.

    Parameters
    ----------
    chosen : str
        What was chosen; its name among the candidates, not its place.
    rho : float
        What the choice cost.
    """
    return canonical_digest({"chosen": chosen, "rho": float(rho)})


def values_digest(values: np.ndarray, sigma: float, rho: float, subject: str = "") -> str:
    """Return the digest of noisy values, in hexadecimal.

    Parameters
    ----------
    values : ndarray
        What was drawn, of any shape; hashed as float64, little-endian, in C order.
    sigma : float
        Standard deviation of the noise, in the unit of the values.
    rho : float
        What the draw cost.
    subject : str
        What was measured.
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
