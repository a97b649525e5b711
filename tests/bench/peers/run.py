"""Measures GEAR and its peers on the same work, interleaved, and says who wins.

    python3 tests/bench/peers/run.py --help        `make bench-peers` makes the environments first
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import processes
import report
from rows import WORKS, Work

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PEERS = ROOT / "build" / "peers"
BENCH = ROOT / "build" / "bench"
DOCUMENT = ROOT / "docs" / "PERFORMANCE.md"
ANSWER_S = 180.0
WARM_PART = 5  # the warming table is so many times smaller

# name: (environment, driver and its arguments)
SYSTEMS = {
    "gear": (ROOT / ".venv", ["gear_peer.py"]),
    "reverb": (PEERS / "reverb", ["reverb_peer.py"]),
    "torchrl": (PEERS / "torchrl", ["torchrl_peer.py"]),
    "torchrl-copies": (PEERS / "torchrl", ["torchrl_peer.py", "copies"]),
    "cpprb": (PEERS / "cpprb", ["cpprb_peer.py"]),
    "cpprb-mp": (PEERS / "cpprb", ["cpprb_peer.py", "mp"]),
}


class Failed(Exception):
    """A driver ended, or said that it could not."""


class Driver:
    """One system's process for one work."""

    def __init__(self, name: str) -> None:
        environment, arguments = SYSTEMS[name]
        self.name = name
        self._log = open(BENCH / f"peers.{name}.log", "a")
        self._process = subprocess.Popen(
            [str(environment / "bin" / "python"), str(HERE / arguments[0]), *arguments[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def answer(self) -> dict[str, Any]:
        readable, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            raise Failed("no answer" if not readable else "ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def do(self, command: str, **values: Any) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps({"do": command, **values}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed("ended") from None
        return self.answer()

    def stop(self) -> None:
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)  # its own session: itself and what it started
            self._process.wait()
        self._log.close()


class Bench:
    """The run: one work after another, all systems on each."""

    def __init__(self, systems: list[str], seconds: float, repeats: int) -> None:
        self._systems = systems
        self._seconds = seconds
        self._repeats = repeats
        self.versions: dict[str, dict[str, str]] = {}
        self.notes: list[str] = []
        self.rows: list[report.Row] = []
        self._resident: dict[str, float] = {}  # of the present work, bytes a payload byte

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            print(text, flush=True)

    def run(self, work: Work) -> None:
        drivers: list[Driver] = []
        try:
            for name in self._systems:
                drivers.append(Driver(name))
            ready = [driver for driver in drivers if self._prepared(driver, work)]
            self._measure(ready, work)
        finally:
            for driver in drivers:
                driver.stop()

    def _prepared(self, driver: Driver, work: Work) -> bool:
        """Warm, open and full, its memory measured. False: left out of this work."""
        try:
            self.versions[driver.name] = driver.answer()["versions"]
            # A small table first, so that what loads lazily does not count as the big one's memory.
            skip = driver.do("open", work=work.name, steps=work.steps // WARM_PART).get("skip")
            if skip:
                return False
            driver.do("fill")
            driver.do("close")
            before = processes.resident_bytes(driver.pid)
            driver.do("open", work=work.name, steps=work.steps)
            driver.do("fill")
            grown = processes.resident_bytes(driver.pid) - before
            self._resident[driver.name] = grown / (work.steps * work.step_bytes)
            return True
        except Failed as failure:
            self._note(f"{driver.name}: left out of \"{work.name}\": {failure}")
            return False

    def _measure(self, drivers: list[Driver], work: Work) -> None:
        measured: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for _ in range(self._repeats):
            for row, writers in work.cells():
                for driver in list(drivers):
                    try:
                        repeat = self._cell(driver, writers)
                    except Failed as failure:
                        self._note(f"{driver.name}: left out of \"{row}\": {failure}")
                        drivers.remove(driver)
                        continue
                    measured.setdefault((row, driver.name), []).append(repeat)
        for row, writers in work.cells():
            for name in self._systems:
                repeats = measured.get((row, name), [])
                if len(repeats) < self._repeats:
                    continue
                summary = report.summarise(repeats, writers, work.step_bytes, work.item_bytes)
                self.rows.append({"row": row, "system": name, **summary, "resident": self._resident[name]})
            systems = report.by_name(self.rows).get(row, {})
            print("\n".join(report.text_lines(row, systems)) if systems else f"{row}: nobody", flush=True)

    def _cell(self, driver: Driver, writers: int) -> dict[str, Any]:
        before = processes.cpu_seconds(driver.pid)
        if writers:
            repeat = driver.do("write", seconds=self._seconds, writers=writers)
        else:
            repeat = driver.do("sample", seconds=self._seconds)
        return {**repeat, "cpu_s": processes.cpu_seconds(driver.pid) - before}


def _machine() -> dict[str, Any]:
    match = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": match.group(1) if match else platform.machine(),
        "kernel": platform.release().split("-")[0],
        "load": os.getloadavg()[0],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("PEERS_SECONDS", "0.5")),
                        help="of one cell (default $PEERS_SECONDS, else 0.5)")
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("PEERS_REPEATS", "5")),
                        help="of each cell (default $PEERS_REPEATS, else 5)")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only works whose name matches")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma-separated (default all)")
    parser.add_argument("--markdown", action="store_true", help="also rewrite the tables of docs/PERFORMANCE.md")
    parser.add_argument("--rewrite", action="store_true",
                        help="measure nothing; rewrite docs/PERFORMANCE.md from build/bench/peers.json")
    options = parser.parse_args()
    unknown = set(options.systems.split(",")) - set(SYSTEMS)
    if unknown:
        parser.error(f"--systems: no {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    if options.repeats < 1 or not options.seconds > 0:
        parser.error("--repeats is at least 1 and --seconds above 0")
    return options


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    machine = _machine()
    present, notes = [], []
    for name in options.systems.split(","):
        if (SYSTEMS[name][0] / "ready").exists() or (name == "gear" and (SYSTEMS[name][0] / "bin/python").exists()):
            present.append(name)
        else:
            notes.append(f"{name}: not installed, left out")
            print(notes[-1])
    bench = Bench(present, options.seconds, options.repeats)
    bench.notes += notes
    begin = time.monotonic()
    print(report.text_header())
    for work in WORKS:
        if re.search(options.rows, work.name):
            bench.run(work)
    print(f"* most items/s; {time.monotonic() - begin:.0f} s in all")
    settings = {"seconds": options.seconds, "repeats": options.repeats}
    return {"machine": machine, "settings": settings, "versions": bench.versions, "notes": bench.notes,
            "rows": bench.rows}


def main() -> int:
    options = _options()
    BENCH.mkdir(parents=True, exist_ok=True)
    path = BENCH / "peers.json"
    if options.rewrite:
        results = json.loads(path.read_text())
    else:
        results = _measured(options)
        path.write_text(json.dumps(results, indent=1) + "\n")
        print("build/bench/peers.json written")
    if options.markdown or options.rewrite:
        DOCUMENT.write_text(report.spliced(DOCUMENT.read_text(), report.markdown(results)))
        print("docs/PERFORMANCE.md rewritten between its markers")
    return 0 if results["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
