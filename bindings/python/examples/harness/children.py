"""Child processes that end with their parent, whatever ends it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

EXAMPLES = Path(__file__).resolve().parent.parent
STOP_SECONDS = 10.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# One thread a process: they share two cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def end_with_parent(signal_number: int) -> Callable[[], None]:
    """For Popen(preexec_fn=...): the kernel sends the signal when the parent dies."""
    parent = os.getpid()

    def arrange() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return arrange


def exit_on_sigterm() -> None:
    """For a child's main: SIGTERM unwinds it as SystemExit, so that its client closes."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)


def arguments() -> dict[str, Any]:
    """For a child's main: what `Crew.start` was given."""
    return dict(json.loads(sys.argv[1]))


class Crew:
    """The run's Python processes, each `python -m module '{...}'` in a session of its own, so that
    Ctrl-C reaches the parent alone."""

    def __init__(self) -> None:
        self._members: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, module: str, **values: Any) -> None:
        """Starts one member; `values` must be JSON."""
        path = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(values)],
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
        self._members.append((name, process))

    def failed(self) -> str | None:
        """What is to be said about the first member that has ended by itself."""
        for name, process in self._members:
            status = process.poll()
            if status is not None:
                return f"{name} (pid {process.pid}) ended by itself with status {status}"
        return None

    def stop(self) -> None:
        """Asks all to end, waits for them, and kills what is left."""
        for _, process in self._members:
            if process.poll() is None:
                process.terminate()
        stop_by = time.monotonic() + STOP_SECONDS
        for _, process in self._members:
            reap(process, stop_by)
        self._members.clear()


def reap(process: subprocess.Popen[bytes], stop_by: float) -> None:
    """Waits until the monotonic time `stop_by`, then kills."""
    try:
        process.wait(max(0.1, stop_by - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
