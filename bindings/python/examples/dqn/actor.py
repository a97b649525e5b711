"""An actor: steps vectors of environments with the newest policy. As a module, a process."""

from __future__ import annotations

import time
from typing import Any

import gear
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from harness import children, newest
from harness.episodes import Reporter
from numpy.typing import NDArray

from dqn import replay
from dqn.network import Floats, QNetwork
from dqn.settings import Settings


class Policy:
    """Epsilon-greedy on the parameters the learner published last."""

    def __init__(
        self, settings: Settings, weights: newest.Reader, actor: int, actors: int, seed: int
    ) -> None:
        self.updates = 0
        self._settings = settings
        self._network = QNetwork(settings.observation_size, settings.hidden, settings.action_count)
        self._weights = weights
        self._share = actor, actors
        self._rng = np.random.default_rng([seed, actor])

    def refresh(self) -> None:
        """Takes over the newest parameters."""
        values = self._weights.get()
        self._network.parameters[...] = values["parameters"]
        self.updates = int(values["updates"])

    def actions(self, observations: Floats) -> NDArray[np.int64]:
        """[lanes, size] -> [lanes]."""
        greedy = self._network.values(observations).argmax(axis=1)
        random = self._rng.integers(0, self._settings.action_count, len(greedy))
        epsilon = self._settings.epsilon(*self._share, self.updates)
        return np.where(self._rng.random(len(greedy)) < epsilon, random, greedy)


class Pace:
    """Lets the actors go only so far ahead of the learner."""

    POLL_SECONDS = 0.002

    def __init__(self, settings: Settings, steps: gear.Table, policy: Policy) -> None:
        self._settings = settings
        self._steps = steps
        self._policy = policy

    def wait(self) -> None:
        """Takes the newest policy, and waits while the table is `lead_steps` beyond what is due."""
        self._policy.refresh()
        while self._steps.stats().inserts >= self._limit():
            time.sleep(self.POLL_SECONDS)
            self._policy.refresh()

    def _limit(self) -> int:
        return self._settings.steps_due(self._policy.updates) + self._settings.lead_steps


class Actor:
    """A vector environment, one lane of the steps table for each part of it. One thread."""

    def __init__(self, env: SyncVectorEnv, writer: gear.Writer, reporter: Reporter) -> None:
        if env.metadata["autoreset_mode"] != AutoresetMode.SAME_STEP:
            raise ValueError("the environment must reset within the step that ends an episode")
        self._env = env
        self._writer = writer
        self._reporter = reporter
        self._observations: Floats = np.empty(0, np.float32)

    def reset(self, seed: int) -> None:
        self._observations, _ = self._env.reset(seed=seed)

    def step(self, policy: Policy) -> None:
        """One step of every lane. Of an episode that ends, what the environment returns already
        belongs to the next one; the true final observation is in the infos, and is stored as the
        episode's end."""
        actions = policy.actions(self._observations)
        observations, rewards, terminated, truncated, infos = self._env.step(actions)
        self._writer.append_each(
            observation=self._observations,
            action=actions,
            reward=rewards.astype(np.float32),
            terminated=terminated,
        )
        self._reporter.add(rewards)
        for lane in np.flatnonzero(terminated | truncated).tolist():
            self._end_episode(lane, bool(terminated[lane]), infos)
        self._observations = observations

    def _end_episode(self, lane: int, terminated: bool, infos: dict[str, Any]) -> None:
        end: gear.End = gear.TERMINATED if terminated else gear.TRUNCATED
        self._writer.end_episode(lane, end, observation=infos["final_obs"][lane])
        self._reporter.finish(lane)


def make_env(name: str, lanes: int) -> SyncVectorEnv:
    return SyncVectorEnv(
        [lambda: gymnasium.make(name)] * lanes, autoreset_mode=AutoresetMode.SAME_STEP
    )


def main() -> None:
    given = children.arguments()
    children.exit_on_sigterm()
    settings = Settings()
    actor, lanes, prefix = given["actor"], given["lanes"], given["prefix"]
    with gear.connect(given["endpoint"], name=f"actor {actor}") as client:
        steps = client.open_table(replay.steps_name(prefix))
        weights = newest.Reader(client, replay.weights_name(prefix))
        policy = Policy(settings, weights, actor, given["actors"], given["seed"])
        pace = Pace(settings, steps, policy)
        reporter = Reporter(client, given["episodes"], actor, lanes)
        player = Actor(make_env(given["env"], lanes), steps.writer(lanes=lanes), reporter)
        player.reset(seed=1000 * given["seed"] + 100 * actor)
        while True:
            pace.wait()
            for _ in range(settings.steps_between_refreshes):
                player.step(policy)


if __name__ == "__main__":
    main()
