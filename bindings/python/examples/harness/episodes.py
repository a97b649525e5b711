"""Finished episodes on their way from the actors to the demo's main process: a GEAR queue."""

from __future__ import annotations

from dataclasses import dataclass

import gear
import numpy as np

COLUMNS = {"actor": "int32", "length": "int32", "total": "float32"}


@dataclass(frozen=True)
class Episode:
    """One finished episode: who played it, its steps and its undiscounted return."""

    actor: int
    length: int
    total: float


def create(client: gear.Client, name: str) -> None:
    """Creates the queue; actors wait when so many episodes are not fetched."""
    client.create_queue(name, COLUMNS, capacity=4096)


class Reporter:
    """An actor's end: counts what its lanes collect and sends what they finish."""

    def __init__(self, client: gear.Client, name: str, actor: int, lanes: int) -> None:
        self._writer = client.open_table(name).writer()
        self._actor = np.int32(actor)
        self._lengths = np.zeros(lanes, np.int32)
        self._totals = np.zeros(lanes, np.float32)

    def add(self, rewards: np.ndarray) -> None:
        """One step of every lane; rewards [lanes]."""
        self._lengths += 1
        self._totals += rewards.astype(np.float32)

    def finish(self, lane: int) -> None:
        self._writer.append(
            0, actor=self._actor, length=self._lengths[lane], total=self._totals[lane]
        )
        self._lengths[lane] = 0
        self._totals[lane] = 0.0


class Fetcher:
    """The main process's end."""

    ROWS = 256

    def __init__(self, client: gear.Client, name: str) -> None:
        self._sampler = client.open_table(name).sampler(batch=self.ROWS, rows_min=1)

    def fetch(self) -> list[Episode]:
        """Every episode that is there now, in the order of their ends. Does not wait."""
        episodes: list[Episode] = []
        while True:
            try:
                batch = self._sampler.sample(timeout=0.0)
            except gear.TimedOut:
                return episodes
            with batch:
                columns = (batch[name].tolist() for name in COLUMNS)
                episodes += [Episode(*row) for row in zip(*columns, strict=True)]
