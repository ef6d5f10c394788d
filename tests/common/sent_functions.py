"""Functions that are sent to other processes, in a module that these import quickly."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass

import numpy as np


@dataclass
class Made:
    """Says which process makes an array; some numbers end one that is no parent."""

    parent: int
    ends: int = -1
    fails: int = -1

    def __call__(self, number: int) -> tuple[int, np.ndarray]:
        if number == self.fails:
            raise ValueError(f"there is no {number}")
        if number == self.ends and os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdout.write("what libraries print")
        return os.getpid(), np.full((2, 3), number)


class Unsendable:
    """A value, or a function's result, that raises an error of its own where it is packed."""

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self) -> str:
        raise ZeroDivisionError


@dataclass
class Returns:
    """A function that is sent, and whose results cannot be."""

    def __call__(self, number: int) -> Unsendable:
        return Unsendable()
