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


def fill(run: object, files: object, data: object, to: Connection) -> None:
    held = bytearray(HELD_MB * 2**20)
    to.send(AT_WORK)
    time.sleep(600)
    sys.exit(len(held))


def crash(run: object, files: object, data: object, to: Connection) -> None:
    to.send(AT_WORK)
    os.kill(os.getpid(), signal.SIGSEGV)


def end_without_a_word(run: object, files: object, data: object, to: Connection) -> None:
    sys.exit(1)


def end_at_work(run: object, files: object, data: object, to: Connection) -> None:
    to.send(AT_WORK)
    sys.exit(3)
