"""The run of frames: its tables, its processes, its figures."""

from __future__ import annotations

import gear
from harness import newest
from harness.children import Crew
from harness.progress import Counts

from frames import replay

CAPACITY_STEPS = 50_000


class FramesPlan:
    """Actors that play at random and one reader that draws stacks. Nothing is learned."""

    learns = False

    def __init__(self, env: str, actors: int, lanes: int, seed: int) -> None:
        self._env = env
        self._actors = actors
        self._lanes = lanes
        self._seed = seed

    def create_tables(self, client: gear.Client, prefix: str) -> None:
        replay.create(client, prefix, CAPACITY_STEPS, lanes=self._actors * self._lanes)
        newest.create(client, replay.progress_name(prefix), replay.PROGRESS_COLUMNS)
        self._frames = client.open_table(replay.frames_name(prefix))
        self._progress = newest.Reader(client, replay.progress_name(prefix))

    def start(self, crew: Crew, endpoint: str, prefix: str, episodes: str) -> None:
        shared = {"endpoint": endpoint, "prefix": prefix, "seed": self._seed}
        crew.start("reader", "frames.reader", **shared)
        for actor in range(self._actors):
            crew.start(
                f"actor {actor}", "frames.actor", **shared, episodes=episodes, env=self._env,
                actor=actor, lanes=self._lanes,
            )  # fmt: skip

    def counts(self) -> Counts:
        stats = self._frames.stats()
        try:
            progress = self._progress.get(timeout=0.0)
        except gear.TimedOut:  # the reader is not up yet
            progress = {"batches": 0, "bytes": 0}
        batches = int(progress["batches"])
        return Counts(
            steps=stats.steps,
            samples=batches * replay.BATCH_ROWS,
            sample_bytes=int(progress["bytes"]),
            updates=batches,
            items=stats.items,
            capacity=CAPACITY_STEPS,
        )
