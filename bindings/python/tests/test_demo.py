"""The demo as a user runs it, and that nothing is left of it."""

# ctest: labels=slow timeout=180 serial
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")
ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "bindings" / "python" / "examples" / "demo.py"
GEARD = Path(os.environ.get("GEARD", ROOT / "build" / "release" / "geard"))
pytestmark = pytest.mark.skipif(not GEARD.exists(), reason=f"no {GEARD}")


class DemoRun:
    """A demo process and all its descendants, known by a mark in their environment."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._mark = uuid.uuid4().hex
        self.out = directory / "out"
        self._log = directory / "log"
        self._temporary = directory / "tmp"
        self._temporary.mkdir()
        command = [sys.executable, str(DEMO), "--geard", str(GEARD), "--out", str(self.out)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "GEAR_TEST_MARK": self._mark, "TMPDIR": str(self._temporary)},
            )  # fmt: skip

    def log(self) -> str:
        return self._log.read_text()

    def members(self) -> list[int]:
        """Process ids of those that live, the demo among them."""
        return [
            int(entry.name) for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and self._mark in _read(entry / "environ")
        ]  # fmt: skip

    def segments(self) -> set[str]:
        """How the names begin of the files in /dev/shm that the run's processes map: all segments
        of a server are gear.<user>.<instance>.<what>."""
        found = set()
        for pid in self.members():
            for line in _read(Path(f"/proc/{pid}/maps")).splitlines():
                if "/dev/shm/" in line and not line.endswith("(deleted)"):
                    name = line[line.index("/dev/shm/") + len("/dev/shm/") :]
                    found.add(".".join(name.split(".")[:3]))
        return found

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up, self.log()
            time.sleep(0.05)

    def wait_segments(self) -> set[str]:
        """Waits until there are some: from when its geard runs, before the actors are there."""
        found: set[str] = set()

        def there() -> bool:
            found.update(self.segments())
            return bool(found) or self.process.poll() is not None

        self.wait_until(there)
        assert found, self.log()
        return found

    def wait_learning(self) -> set[str]:
        """Waits until steps flow; returns `segments`."""
        self.wait_until(lambda: " in " in self.log() and len(self.members()) >= 4)
        return self.segments()

    def temporary_files(self) -> list[Path]:
        return list(self._temporary.iterdir())


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def assert_nothing_left(run: DemoRun, segments: set[str]) -> None:
    run.wait_until(lambda: not run.members(), seconds=20)
    left = [path.name for path in Path("/dev/shm").iterdir()]
    assert [name for name in left if name.startswith(tuple(segments))] == []


def test_demo_reaches_its_goal_and_reports(tmp_path):
    # It may be over before it reports for the first time.
    run = DemoRun(tmp_path, "--goal", "25", "--minutes", "2", "--actors", "2")
    segments = run.wait_segments()
    assert run.process.wait(timeout=150) == 0, run.log()
    assert_nothing_left(run, segments)
    assert run.temporary_files() == []
    results = json.loads((run.out / "results.json").read_text())
    assert results["outcome"] == "goal" and results["mean_return"] >= 25
    assert results["steps"] > 0 and results["points"]
    assert "mean return" in run.log()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing(tmp_path, number):
    run = DemoRun(tmp_path, "--goal", "1000")
    segments = run.wait_learning()
    assert segments
    run.process.send_signal(number)
    assert run.process.wait(timeout=40) == 128 + number, run.log()
    assert_nothing_left(run, segments)
    assert run.temporary_files() == []
    assert "Traceback" not in run.log()


def test_interrupt_while_starting_leaves_nothing(tmp_path):
    run = DemoRun(tmp_path, "--goal", "1000")
    run.wait_until(lambda: len(run.members()) >= 2)
    segments = run.segments()
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(timeout=40) == 128 + signal.SIGINT, run.log()
    assert_nothing_left(run, segments)
    assert run.temporary_files() == []


def test_killed_demo_takes_its_processes_and_segments_along(tmp_path):
    run = DemoRun(tmp_path, "--goal", "1000")
    segments = run.wait_learning()
    run.process.kill()
    run.process.wait(timeout=20)
    assert_nothing_left(run, segments)


def test_missed_goal_is_a_clear_failure(tmp_path):
    run = DemoRun(tmp_path, "--goal", "501", "--minutes", "0.1", "--actors", "1")
    assert run.process.wait(timeout=60) == 1, run.log()
    assert "6 s are over" in run.log()
    assert_nothing_left(run, set())


def test_dead_actor_ends_the_demo(tmp_path):
    run = DemoRun(tmp_path, "--goal", "1000")
    segments = run.wait_learning()
    actors = [pid for pid in run.members() if "dqn.actor" in _read(Path(f"/proc/{pid}/cmdline"))]
    os.kill(actors[0], signal.SIGKILL)
    assert run.process.wait(timeout=60) == 2, run.log()
    assert "ended by itself" in run.log()
    assert_nothing_left(run, segments)


def test_unusable_options_say_so(tmp_path):
    for arguments in (["--env", "Walker"], ["--actors", "0"], ["--geard", str(tmp_path / "none")]):
        result = subprocess.run(
            [sys.executable, str(DEMO), *arguments], capture_output=True, text=True, timeout=50
        )
        assert result.returncode == 2
        assert arguments[0] in result.stderr


def test_frames_move_and_are_checked(tmp_path):
    pytest.importorskip("ale_py")
    run = DemoRun(tmp_path, "--env", "ALE/Pong-v5", "--seconds", "8", "--actors", "2")
    assert run.process.wait(timeout=90) == 0, run.log()
    assert_nothing_left(run, set())
    results = json.loads((run.out / "results.json").read_text())
    assert results["samples"] > 0 and results["steps"] > 0
