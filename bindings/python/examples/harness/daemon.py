"""A private geard on a private socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import gear

from harness.children import STOP_SECONDS, end_with_parent, reap

READY_SECONDS = 10.0
_BUILD_TREE = Path(__file__).resolve().parents[4] / "build" / "release" / "geard"


class DaemonError(Exception):
    """The daemon is not there, or does not come up; the text says why and what to do."""


def find(path: str | None) -> str:
    """The geard to run: `path` if given, else the build tree's, else the one in PATH."""
    if path is not None:
        if not os.access(path, os.X_OK):
            raise DaemonError(f"--geard {path}: no executable there")
        return path
    if _BUILD_TREE.exists():
        return str(_BUILD_TREE)
    found = shutil.which("geard")
    if found is None:
        raise DaemonError(f"no geard at {_BUILD_TREE} nor in PATH: `make build`, or give --geard")
    return found


class Daemon:
    """geard with its socket in a directory of its own. As a context manager, it is up inside.

    It leaves the terminal's process group, so Ctrl-C reaches the demo alone; it ends on SIGTERM,
    which the kernel also sends when the demo is killed.
    """

    def __init__(self, geard: str) -> None:
        self._geard = geard
        self._directory = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"unix:{self._directory}/geard.sock"

    def __enter__(self) -> Daemon:
        self._directory = tempfile.mkdtemp(prefix="gear-demo-")
        try:
            socket = f"{self._directory}/geard.sock"
            self._process = subprocess.Popen(
                [self._geard, "--log-level", "warning", "--socket", socket],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
            self._wait_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def failed(self) -> str | None:
        """What is to be said if the daemon has ended by itself."""
        status = self._process.poll() if self._process else None
        return None if status is None else f"{self._geard} ended by itself with status {status}"

    def _wait_ready(self) -> None:
        ready_by = time.monotonic() + READY_SECONDS
        while True:
            try:
                gear.connect(self.endpoint).close()
                return
            except gear.NoServer as error:
                failure = self.failed()
                if failure is not None:
                    raise DaemonError(failure) from None
                if time.monotonic() > ready_by:
                    text = f"{self._geard} is not up after {READY_SECONDS:g} s: {error}"
                    raise DaemonError(text) from None
            time.sleep(0.02)

    def _stop(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.terminate()
            reap(self._process, time.monotonic() + STOP_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)
