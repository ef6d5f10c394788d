"""The demo, materialized and served as people see it: ``python -m tests.browser.demo FOLDER``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
GROUP = "health_survey"
_LONGEST_START = 180


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a Dagster instance that touches no other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAM_")}
    return kept | {
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(ROOT),
    }


def materialize(home: Path) -> None:
    """Materialize the demo into an instance of its own, in one process."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    # Who has been asked for an address is not asked again.
    (home / ".nux").mkdir()
    (home / ".nux" / "nux.yaml").write_text("seen: 1\n")
    command = [sys.executable, "-m", "tests.browser.demo", str(home)]
    subprocess.run(command, cwd=ROOT, env=environment(home), check=True, capture_output=True)


def plan_page(home: Path, path: Path) -> None:
    """Write the plan of the demo's release, as the command line draws it."""
    command = [sys.executable, "-m", "jam_dagster.cli", "plan", f"assets/releases/{GROUP}"]
    command += ["--records", "30000", "--ledger", str(home / "jam" / "ledger.sqlite")]
    command += ["--edition", "2", "--plot", str(path)]
    subprocess.run(command, cwd=ROOT, env=environment(home), check=True, capture_output=True)


@contextmanager
def served(home: Path) -> Iterator[str]:
    """Serve Dagster's UI on an instance, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Whoever starts this may ignore interrupts; the server must not inherit that.
    command = ["env", "--default-signal=INT,TERM", sys.executable, "-m", "dagster_webserver"]
    command += ["-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with (home / "webserver.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment(home), stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address, server)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _LONGEST_START
    while server.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError("Dagster's UI did not start: webserver.log in its folder says why.")


def _execute() -> None:
    import dagster as dg

    from assets.definitions import defs

    made = defs().resolve_job_def(f"{GROUP}_release")
    with dg.DagsterInstance.get() as instance:
        assert made.execute_in_process(instance=instance).success


if __name__ == "__main__":
    _execute()
