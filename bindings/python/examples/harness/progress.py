"""The run's figures as they come, and the line that shows them."""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from harness.episodes import Episode

WINDOW_EPISODES = 20


@dataclass(frozen=True)
class Counts:
    """What a plan reads off its tables: totals since the run began, and the table's fill."""

    steps: int
    samples: int
    sample_bytes: int
    updates: int
    items: int
    capacity: int


@dataclass(frozen=True)
class Point:
    """One moment of the run. Rates are over the time since the point before."""

    seconds: float
    steps: int
    samples: int
    sample_bytes: int
    updates: int
    steps_per_s: float
    samples_per_s: float
    bytes_per_s: float
    fill: float
    mean_return: float | None


@dataclass
class History:
    """All points of a run and all episodes of the actor that is judged.

    mean_return is the mean over the last 20 episodes that actor finished; None before there are 20.
    """

    judged_actor: int
    begin: float = field(default_factory=time.monotonic)
    points: list[Point] = field(default_factory=list)
    episodes: list[tuple[float, Episode]] = field(default_factory=list)
    episode_count: int = 0
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW_EPISODES))
    _last: tuple[float, Counts] | None = None

    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def mean_return(self) -> float | None:
        if len(self._recent) < WINDOW_EPISODES:
            return None
        return sum(self._recent) / WINDOW_EPISODES

    def add_episode(self, episode: Episode) -> None:
        self.episode_count += 1
        if episode.actor == self.judged_actor:
            self._recent.append(episode.total)
            self.episodes.append((self.seconds(), episode))

    def add_counts(self, counts: Counts) -> Point:
        now = self.seconds()
        then, before = self._last or (0.0, Counts(0, 0, 0, 0, 0, 1))
        span = max(1e-9, now - then)
        point = Point(
            seconds=now,
            steps=counts.steps,
            samples=counts.samples,
            sample_bytes=counts.sample_bytes,
            updates=counts.updates,
            steps_per_s=(counts.steps - before.steps) / span,
            samples_per_s=(counts.samples - before.samples) / span,
            bytes_per_s=(counts.sample_bytes - before.sample_bytes) / span,
            fill=counts.items / counts.capacity,
            mean_return=self.mean_return(),
        )
        self.points.append(point)
        self._last = now, counts
        return point

    def as_json(self) -> dict[str, Any]:
        return {
            "points": [asdict(point) for point in self.points],
            "episodes": [
                {"seconds": seconds, "length": episode.length, "return": episode.total}
                for seconds, episode in self.episodes
            ],
        }


class ProgressLine:
    """One line that is written over on a terminal; elsewhere a new line every few seconds."""

    PERIOD_SECONDS = 5.0

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._tty = stream.isatty()
        self._next = 0.0

    def show(self, point: Point) -> None:
        if not self._tty and point.seconds < self._next:
            return
        self._next = point.seconds + self.PERIOD_SECONDS
        line = text_of(point)
        self._stream.write(f"\r\x1b[K{line}" if self._tty else f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._tty:
            self._stream.write("\n")
            self._stream.flush()


def text_of(point: Point) -> str:
    """As "12 s   in 812 steps/s   out 6,410 samples/s (0.7 MB/s)   return 231.5   table 34 %"."""
    shown = "   -" if point.mean_return is None else f"{point.mean_return:6.1f}"
    return (
        f"{point.seconds:5.0f} s   in {point.steps_per_s:7,.0f} steps/s   "
        f"out {point.samples_per_s:8,.0f} samples/s ({point.bytes_per_s / 1e6:,.1f} MB/s)   "
        f"return {shown}   table {100 * point.fill:3.0f} %"
    )
