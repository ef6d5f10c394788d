"""Locks, durable files, memory and the user: all that operating systems have of their own.

Linux and macOS have all of it. Windows lacks `fcntl`, `pwd` and `resource`, which no other module
imports: there a ledger is refused, and research works.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from jam_dagster.errors import PlatformError

_STATUS = Path("/proc/self/status")
_MEMORY = Path("/proc/meminfo")
_GROUPS = Path("/proc/self/cgroup")
_CONTROL = Path("/sys/fs/cgroup")


def check_locks() -> None:
    """Raise PlatformError if the system lacks the locks of a ledger."""
    try:
        import_module("fcntl")
    except ImportError:
        raise PlatformError(
            "a ledger needs the file locks of Linux or macOS, which this system lacks, so nothing "
            "was charged: make the release there, or try it here with seeded noise (noise: numpy)"
        ) from None


def lock_byte(descriptor: int, place: int) -> bool:
    """Lock a byte of a file for this opening of it; return whether no other one has the lock.

    It is an open file description lock. A file need not reach as far as the byte.
    """
    import fcntl

    try:
        _set_lock(descriptor, fcntl.F_WRLCK, place, 1)
    except BlockingIOError:
        return False
    return True


def unlock_bytes(descriptor: int) -> None:
    """Release all that `lock_byte` locked by this opening of a file."""
    import fcntl

    _set_lock(descriptor, fcntl.F_UNLCK, 0, 0)


def _set_lock(descriptor: int, kind: int, start: int, length: int) -> None:
    """Lock or unlock bytes; length 0 stands for all."""
    import fcntl

    if sys.platform == "darwin":
        # Its headers define the lock, Python's module does not.
        request = struct.pack("qqihh", start, length, 0, kind, os.SEEK_SET)
        fcntl.fcntl(descriptor, 90, request)
    else:
        # struct flock of Linux, padded to its size.
        request = struct.pack("hhqqi0q", kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)


def lock_whole(descriptor: int, *, wait: bool) -> bool:
    """Lock a file or folder until it is closed; return whether no other opening has the lock.

    Windows has no such lock, and each opening has it there.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def sync_file(descriptor: int) -> None:
    """Return once a file is on the disk, where it outlives a loss of power."""
    if sys.platform == "darwin":
        import fcntl

        # `fsync` of macOS leaves the file in the disk's own memory. Not every file system has both.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the disk; Windows opens no folder."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def widen_pipe(descriptor: int, size: int) -> None:
    """Give a pipe room for so many bytes, if the system has it."""
    if sys.platform == "linux":
        # All pipes of a user share a number of pages, and there may be no more.
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)


def user_name() -> str:
    """Return the user of this process, which no variable changes; empty if none is known."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError, OSError):
        # The process runs as a number without a name.
        return ""


def all_memory() -> int:
    """Return how many bytes of memory there are for this process, by machine and control group."""
    return min([_machine_memory(), *(limit for limit, _ in _limits())])


def free_memory() -> int:
    """Return how many bytes this process may still take; on macOS, how many the machine has."""
    left = [_available_memory()]
    for limit, used in _limits():
        with suppress(OSError, ValueError):
            # Files that were read are kept as long as nothing else needs the memory.
            stat = used.with_name("memory.stat")
            kept = numbers(stat.read_text()) if stat.exists() else {}
            # The first version has files of the groups below under a name of their own.
            files = kept.get("total_inactive_file", kept.get("inactive_file", 0))
            left.append(limit - int(used.read_text()) + files)
    return max(0, min(left))


def _machine_memory() -> int:
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # Dagster requires it on Windows, as this module does.
    import psutil

    return int(psutil.virtual_memory().total)


def _available_memory() -> int:
    if _MEMORY.exists():
        return numbers(_MEMORY.read_text())["MemAvailable"] * 2**10
    if hasattr(os, "sysconf"):
        return _machine_memory()
    import psutil

    return int(psutil.virtual_memory().available)


def _limits() -> Iterator[tuple[int, Path]]:
    """Yield each limit of this process's memory, with its use's file."""
    for group in control_groups("memory"):
        # The second version's files, and the first's.
        for most, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            # A group without a limit has a word in place of the number, or no file.
            with suppress(OSError, ValueError):
                yield int((group / most).read_text()), group / used


def control_groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups, and of those above.

    The first version has a tree of groups for each controller. A container may see the files of its
    own group alone, at the mount's root, whatever its path.
    """
    lines = ""
    with suppress(OSError, ValueError):
        lines = _GROUPS.read_text()
    found = re.findall(r"^\d+:(.*?):/(.*)$", lines, re.MULTILINE)
    paths = {name: path for names, path in found for name in names.split(",")}
    for mount, name in ((_CONTROL, ""), (_CONTROL / controller, controller)):
        own = mount / paths.get(name, "")
        if ".." in own.parts or not os.path.isdir(own):
            own = mount
        for group in (own, *own.parents):
            if not group.is_relative_to(mount):
                break
            yield group


def numbers(lines: str) -> dict[str, int]:
    """Return the numbers of a file of the system by their names, as in ``MemFree:  12 kB``."""
    found = re.findall(r"^(\w+):?\s+(\d+)", lines, re.MULTILINE)
    return {name: int(number) for name, number in found}


def peak_memory_mb() -> float:
    """Return the peak memory of this process, in 2^20 bytes.

    On Linux it is read from the process's own status: `getrusage` includes the memory of the
    parent process at the start.
    """
    if _STATUS.exists():
        return numbers(_STATUS.read_text())["VmHWM"] / 2**10
    try:
        import resource
    except ImportError:
        import psutil

        return float(psutil.Process().memory_info().peak_wset / 2**20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Others count in kilobytes.
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
