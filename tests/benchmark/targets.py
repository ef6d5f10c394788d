"""What the process of a run may come to; without imports that take time, for each starts anew."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

HELD_MB = 200
AT_WORK = "at work"


def be_killed(run: object, files: object, data: object, to: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_and_be_killed(run: object, files: object, data: object, to: Connection) -> None:
    to.send(AT_WORK)
    held = bytearray(HELD_MB * 2**20)
    # Long enough to be looked at, and to be seen holding it.
    time.sleep(0.7)
    os.kill(os.getpid(), signal.SIGKILL if len(held) else 0)


def crash(run: object, files: object, data: object, to: Connection) -> None:
    to.send(AT_WORK)
    os.kill(os.getpid(), signal.SIGSEGV)


def end_without_a_word(run: object, files: object, data: object, to: Connection) -> None:
    sys.exit(1)


def end_at_work(run: object, files: object, data: object, to: Connection) -> None:
    to.send(AT_WORK)
    sys.exit(3)
