"""One run: tables, processes, progress, and the end of all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import gear

from harness import episodes
from harness.children import Crew
from harness.daemon import Daemon
from harness.progress import Counts, History, ProgressLine

PERIOD_SECONDS = 0.5


class Plan(Protocol):
    """What differs from demo to demo."""

    learns: bool

    def create_tables(self, client: gear.Client, prefix: str) -> None: ...

    def start(self, crew: Crew, endpoint: str, prefix: str, episodes: str) -> None: ...

    def counts(self) -> Counts: ...


@dataclass(frozen=True)
class Limits:
    """When a run ends. goal: mean return of actor 0's last 20 episodes; None is without."""

    seconds: float
    goal: float | None


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "goal", "time", "interrupted" or "failed", and what is to be said of it."""

    kind: str
    text: str


class StopSignals:
    """Turns SIGINT, SIGTERM and SIGHUP into a flag that the run looks at, so that no moment is a
    bad one for Ctrl-C. `caught` is the first signal's number, or 0."""

    def __init__(self) -> None:
        self.caught = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._catch)

    def _catch(self, number: int, _frame: FrameType | None) -> None:
        self.caught = self.caught or number


def run(
    plan: Plan, daemon: Daemon | None, endpoint: str, limits: Limits, signals: StopSignals
) -> tuple[Outcome, History, gear.ServerInfo]:
    """Runs a plan against the server at `endpoint`; nothing of it is left when this returns."""
    prefix = f"demo-{os.getpid()}"
    queue = f"{prefix}/episodes"
    history = History(judged_actor=0)
    with ExitStack() as stack:
        client = stack.enter_context(gear.connect(endpoint, name="demo"))
        stack.callback(drop_tables, client, prefix)
        episodes.create(client, queue)
        plan.create_tables(client, prefix)
        fetcher = episodes.Fetcher(client, queue)

        crew = Crew()
        stack.callback(crew.stop)
        plan.start(crew, endpoint, prefix, queue)

        def failed() -> str | None:
            return crew.failed() or (daemon.failed() if daemon else None)

        outcome = watch(plan, fetcher, history, limits, failed, signals)
        server = client.server()
    return outcome, history, server


def watch(
    plan: Plan,
    fetcher: episodes.Fetcher,
    history: History,
    limits: Limits,
    failed: Callable[[], str | None],
    signals: StopSignals,
) -> Outcome:
    """Shows progress until the run ends."""
    line = ProgressLine()
    try:
        while True:
            time.sleep(PERIOD_SECONDS)
            for episode in fetcher.fetch():
                history.add_episode(episode)
            line.show(history.add_counts(plan.counts()))

            if signals.caught:
                return Outcome("interrupted", f"ended by {signal.strsignal(signals.caught)}")
            failure = failed()
            if failure is not None:
                return Outcome("failed", failure)
            mean = history.mean_return()
            if limits.goal is not None and mean is not None and mean >= limits.goal:
                return Outcome("goal", f"mean return {mean:.1f} reached {limits.goal:g}")
            if history.seconds() >= limits.seconds:
                return Outcome("time", f"{limits.seconds:g} s are over")
    finally:
        line.end()


def drop_tables(client: gear.Client, prefix: str) -> None:
    """Drops the run's tables, as far as the server is still there."""
    try:
        for name in client.tables():
            if name.startswith(f"{prefix}/"):
                client.drop(name)
    except gear.ServerError:
        pass
