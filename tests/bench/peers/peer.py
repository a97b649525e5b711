"""One system under measurement, and the loop that obeys the runner.

A driver is `python X_peer.py`: it reads one JSON command a line and answers each with one JSON line.

    {"do": "open", "work": NAME, "steps": N}    -> {} or {"skip": why}
    {"do": "fill"}                              -> {}
    {"do": "sample", "seconds": S}              -> {"items", "seconds", "latencies_us", "sampled", "torn"}
    {"do": "write", "seconds": S, "writers": W} -> the same; items are those written
    {"do": "close"}                             -> {}
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from abc import ABC, abstractmethod
from typing import Any

import data
from rows import SAMPLE_EVERY_S, Work, work_named

WRITERS_MAX = 4
_LATENCIES_MAX = 5000


class Writer(ABC):
    """An actor's side, in a process of its own."""

    @abstractmethod
    def fill(self, work: Work) -> None:
        """Stores `work.steps` steps, episode by episode (payload tables: chunk by chunk)."""

    @abstractmethod
    def put(self, chunk: Any) -> None:
        """Stores the steps of one chunk of payloads."""

    def flush(self) -> None:
        """Returns when all that was put can be sampled."""

    def close(self) -> None:
        pass


class System(ABC):
    """A learner's side, and how writers come to it."""

    # True: writers are forked when the driver starts and find the table by what `address` returns.
    # False: they are forked when a table is open and inherit it.
    writers_first = True

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    def unable(self, work: Work) -> str | None:
        """Why this work is left out, if it is."""
        return None

    @abstractmethod
    def open(self, work: Work) -> None: ...

    def ready(self, work: Work) -> None:
        """Called when the table is full, before the first sample."""

    @abstractmethod
    def address(self) -> Any:
        """What a writer needs to find the table; must pickle where writers_first."""

    @staticmethod
    @abstractmethod
    def writer(work: Work, address: Any) -> Writer:
        """Called in the writer's process."""

    def fills_itself(self, work: Work) -> bool:
        """True: the table lives in this process and one of its own writers fills it."""
        return False

    @abstractmethod
    def sample(self) -> Any:
        """Draws one batch: arrays that the learner owns until the next call."""

    @abstractmethod
    def payload(self, batch: Any) -> Any:
        """[rows, floats] of a payload table's batch."""

    def update(self, batch: Any) -> None:
        """Sets new priorities of the batch's items."""

    @abstractmethod
    def close(self) -> None: ...

    def finish(self) -> None:
        """Before the driver ends."""


def end_with_parent() -> None:
    """The kernel ends this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)


def _writer_main(kind: type[System], number: int, pipe: Any, inherited: Any) -> None:
    end_with_parent()
    writer = None
    try:
        while True:
            command, work, argument = pipe.recv()
            if command == "open":
                writer = kind.writer(work, argument if inherited is None else inherited)
                chunks = data.payload_chunks(work, number) if work.writers else []
                pipe.send(None)
            elif command == "fill":
                writer.fill(work)
                writer.flush()
                pipe.send(None)
            elif command == "write":
                pipe.send(_write_for(argument, writer, chunks))
            elif command == "close":
                writer.close()
                writer = None
                pipe.send(None)
            elif command == "end":
                os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _write_for(seconds: float, writer: Writer, chunks: list[Any]) -> tuple[int, float]:
    """(steps stored, seconds), the final flush included."""
    begin = time.perf_counter()
    put = 0
    while time.perf_counter() - begin < seconds:
        writer.put(chunks[put % len(chunks)])
        put += 1
    writer.flush()
    return put * len(chunks[0]), time.perf_counter() - begin


class Crew:
    """The writers' processes."""

    def __init__(self, kind: type[System], count: int, inherited: Any = None) -> None:
        self._members = []
        context = multiprocessing.get_context("fork")
        for number in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(target=_writer_main, args=(kind, number, theirs, inherited), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, mine))

    def ask(self, count: int, command: str, work: Work, argument: Any = None) -> None:
        for _, pipe in self._members[:count]:
            pipe.send((command, work, argument))

    def answers(self, count: int) -> list[Any]:
        return [pipe.recv() for _, pipe in self._members[:count]]

    def answered(self, count: int) -> bool:
        return all(pipe.poll() for _, pipe in self._members[:count])

    def stop(self) -> None:
        for process, pipe in self._members:
            if process.is_alive():
                pipe.send(("end", None, None))
        for process, _ in self._members:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


@dataclasses.dataclass
class _Calls:
    """Latencies of sample calls, and what they brought."""

    latencies_us: list[float] = dataclasses.field(default_factory=list)
    sampled: int = 0
    torn: int = 0

    def result(self, items: int, seconds: float) -> dict[str, Any]:
        step = len(self.latencies_us) // _LATENCIES_MAX + 1
        thinned = [round(value, 1) for value in self.latencies_us[::step]]
        return {"items": items, "seconds": seconds, "latencies_us": thinned, "sampled": self.sampled, "torn": self.torn}


class Driver:
    """Carries out the runner's commands on one system."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._kind = type(system)
        self._crew = Crew(self._kind, WRITERS_MAX) if system.writers_first else None
        self._writers = 0
        self._work: Work | None = None

    def do_open(self, work: str, steps: int) -> dict[str, Any]:
        self._work = dataclasses.replace(work_named(work), steps=steps)
        unable = self._system.unable(self._work)
        if unable:
            return {"skip": unable}
        self._system.open(self._work)
        self._writers = max(self._work.writers, default=0 if self._system.fills_itself(self._work) else 1)
        if not self._kind.writers_first:
            for number in range(self._writers):  # made here, so that forked writers share them
                if self._work.writers:
                    data.payload_chunks(self._work, number)
            self._crew = Crew(self._kind, self._writers, self._system.address())
        address = self._system.address() if self._kind.writers_first else None
        self._crew.ask(self._writers, "open", self._work, address)
        self._crew.answers(self._writers)
        return {}

    def do_fill(self) -> dict[str, Any]:
        if self._system.fills_itself(self._work):
            self._kind.writer(self._work, self._system.address()).fill(self._work)
        else:
            self._crew.ask(1, "fill", self._work)
            self._crew.answers(1)
        self._system.ready(self._work)
        self._batch = self._system.sample()
        return {}

    def do_sample(self, seconds: float) -> dict[str, Any]:
        calls = _Calls()
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            self._draw(calls)
            if self._work.prioritized:
                self._system.update(self._batch)
        return calls.result(calls.sampled, time.perf_counter() - begin)

    def do_write(self, seconds: float, writers: int) -> dict[str, Any]:
        """The writers write as fast as they can; the learner draws a batch now and then."""
        calls = _Calls()
        self._crew.ask(writers, "write", self._work, seconds)
        due = time.perf_counter()
        while not self._crew.answered(writers):
            time.sleep(max(0.0, min(due - time.perf_counter(), SAMPLE_EVERY_S)))
            self._draw(calls)
            calls.torn += data.torn(self._system.payload(self._batch))
            due = max(due + SAMPLE_EVERY_S, time.perf_counter())
        results = self._crew.answers(writers)
        items = sum(stored for stored, _ in results)
        rate = sum(stored / taken for stored, taken in results)
        return calls.result(items, items / rate)

    def _draw(self, calls: _Calls) -> None:
        begin = time.perf_counter()
        self._batch = self._system.sample()
        calls.latencies_us.append((time.perf_counter() - begin) * 1e6)
        calls.sampled += self._work.batch

    def do_close(self) -> dict[str, Any]:
        self._batch = None
        self._crew.ask(self._writers, "close", self._work)
        self._crew.answers(self._writers)
        if not self._kind.writers_first:
            self._crew.stop()
        self._system.close()
        return {}

    def finish(self) -> None:
        if self._kind.writers_first:
            self._crew.stop()
        self._system.finish()


def serve(system: System) -> None:
    """Runs until standard input ends. What the system itself prints goes to standard error."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    driver = Driver(system)
    answers.write(json.dumps({"versions": system.versions()}) + "\n")
    try:
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer = getattr(driver, "do_" + command.pop("do"))(**command)
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
            answers.write(json.dumps(answer) + "\n")
    finally:
        driver.finish()
