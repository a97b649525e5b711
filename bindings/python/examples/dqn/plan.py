"""The CartPole run: its tables, its processes, its figures."""

from __future__ import annotations

import gear
from harness import newest
from harness.children import Crew
from harness.progress import Counts

from dqn import replay
from dqn.network import QNetwork
from dqn.settings import Settings


class LearningPlan:
    """Four actors (by default) and one learner, until actor 0 reaches the goal."""

    learns = True

    def __init__(self, env: str, actors: int, lanes: int, seed: int) -> None:
        self._env = env
        self._actors = actors
        self._lanes = lanes
        self._seed = seed
        self._settings = Settings()

    def create_tables(self, client: gear.Client, prefix: str) -> None:
        settings = self._settings
        shape = settings.observation_size, settings.hidden, settings.action_count
        replay.create(client, prefix, settings, lanes=self._actors * self._lanes)
        columns = replay.weight_columns(len(QNetwork(*shape).parameters))
        newest.create(client, replay.weights_name(prefix), columns)
        self._steps = client.open_table(replay.steps_name(prefix))
        self._weights = newest.Reader(client, replay.weights_name(prefix))

    def start(self, crew: Crew, endpoint: str, prefix: str, episodes: str) -> None:
        shared = {"endpoint": endpoint, "prefix": prefix, "seed": self._seed}
        crew.start("learner", "dqn.learner", **shared)
        for actor in range(self._actors):
            crew.start(
                f"actor {actor}", "dqn.actor", **shared, episodes=episodes, env=self._env,
                actor=actor, actors=self._actors, lanes=self._lanes,
            )  # fmt: skip

    def counts(self) -> Counts:
        """Direct draws are not counted by the table, so the learner's own count is used."""
        stats = self._steps.stats()
        try:
            updates = int(self._weights.get(timeout=0.0)["updates"])
        except gear.TimedOut:  # the learner is not up yet
            updates = 0
        samples = updates * self._settings.batch_rows
        return Counts(
            steps=stats.steps,
            samples=samples,
            sample_bytes=samples * self._row_bytes(),
            updates=updates,
            items=stats.items,
            capacity=self._settings.capacity_steps,
        )

    def _row_bytes(self) -> int:
        observation = 4 * self._settings.observation_size
        return observation + 8 + self._settings.n_step * (4 + 1 + observation)
