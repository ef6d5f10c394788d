"""A disk that is full: a small one in memory, mounted where nobody else sees it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MOUNTING = """
import os, subprocess, sys
disk, room, kilobytes, script = sys.argv[1:5]
done = subprocess.run(
    ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk], capture_output=True
)
if done.returncode:
    sys.exit(77)

def fill(room=int(room)):
    free = os.statvfs(disk)
    with open(os.path.join(disk, "filler"), "wb") as file:
        file.write(bytes(max(free.f_bavail * free.f_frsize - room, 0)))

def files():
    return sorted(
        os.path.relpath(os.path.join(folder, name), disk)
        for folder, _, names in os.walk(disk)
        for name in names
        if name != "filler"
    )

sys.argv = [sys.argv[0], disk]
exec(script)
"""


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let this process write no file of more bytes: the system says that it is too large."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def on_a_full_disk(script: str, disk: Path, *, room: int = 0, kilobytes: int = 1024) -> list[str]:
    """Run a script with a small disk at a folder, and return the lines that it printed.

    Parameters
    ----------
    script
        Python. ``disk`` names the folder, ``fill()`` fills all but `room` bytes, and ``files()``
        lists what lies there.
    disk
        An empty folder.
    room
        How many bytes `fill` leaves.
    kilobytes
        How large the disk is.
    """
    done = subprocess.run(
        [
            *("unshare", "--mount", "--map-root-user", sys.executable, "-c", _MOUNTING),
            *(str(disk), str(room), str(kilobytes), script),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets tests mount nothing")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
