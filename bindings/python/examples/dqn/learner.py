"""The learner: n-step Double DQN on prioritized batches. As a module, a process."""

from __future__ import annotations

import time

import gear
import numpy as np
from harness import children, newest
from numpy.typing import NDArray

from dqn import replay
from dqn.network import Adam, Floats, QNetwork
from dqn.replay import StepBatch
from dqn.settings import Settings


class Learner:
    """Owns the online and the target network. One thread."""

    def __init__(self, settings: Settings, seed: int) -> None:
        shape = (settings.observation_size, settings.hidden, settings.action_count)
        self.settings = settings
        self.online = QNetwork(*shape, seed=seed)
        self.target = QNetwork(*shape, seed=seed)
        self.updates = 0
        self.loss = 0.0  # mean absolute TD error, smoothed
        self._adam = Adam(len(self.online.parameters), settings.gradient_norm_max)
        self._discounts = settings.discount ** np.arange(settings.n_step + 1, dtype=np.float32)

    def update(self, batch: StepBatch) -> NDArray[np.float64]:
        """One gradient step. Returns the new priorities, |TD error| of each row."""
        settings = self.settings
        targets, usable = self.targets(batch)
        weights = importance_weights(batch.probabilities, settings.beta(self.updates)) * usable
        gradient, errors = self.online.gradient(
            batch.observation, batch.action, targets, weights, settings.huber_delta
        )
        step_size = settings.step_size(self.updates)
        self._adam.apply(self.online.parameters, gradient, step_size)
        self.updates += 1
        # Lillicrap et al., Continuous Control with Deep Reinforcement Learning, 2016, section 3.
        drift = self.online.parameters - self.target.parameters
        self.target.parameters += np.float32(settings.target_rate) * drift

        priorities = np.abs(errors).astype(np.float64)
        self.loss += 0.01 * (float(priorities.mean()) - self.loss)
        return np.where(usable, priorities + 1e-3, batch.priorities)

    def targets(self, batch: StepBatch) -> tuple[Floats, NDArray[np.bool_]]:
        """n-step Double DQN targets [rows], and which rows have one.

        The k rewards that are followed by a stored observation are summed (k <= n: episodes end,
        and the newest steps of an open one have few successors), then the value of the last of
        these observations is added unless the step that led there terminated the episode. A
        truncated episode goes on to its true final observation. Rows with k = 0 have no target
        yet. van Hasselt et al., Deep Reinforcement Learning with Double Q-learning, 2016, eq. 4;
        Sutton and Barto, Reinforcement Learning, 2018, section 7.1.
        """
        counts = batch.next_mask.sum(axis=1)
        usable = counts > 0
        last = np.maximum(counts - 1, 0)
        rows = np.arange(len(counts))

        rewards = np.where(batch.next_mask, batch.reward, 0.0) @ self._discounts[:-1]
        following = batch.next_observation[rows, last]
        best = self.online.values(following).argmax(axis=1)
        values = self.target.values(following)[rows, best]
        values[batch.terminated[rows, last]] = 0.0
        targets = rewards + self._discounts[counts] * values
        return targets.astype(np.float32), usable


def importance_weights(probabilities: NDArray[np.float64], beta: float) -> Floats:
    """(N * P)^-beta over the batch's largest; N cancels.

    Schaul et al., Prioritized Experience Replay, 2016, section 3.4.
    """
    weights: Floats = ((probabilities.min() / probabilities) ** beta).astype(np.float32)
    return weights


def learn(client: gear.Client, prefix: str, settings: Settings, seed: int) -> None:
    """Learns and publishes until the process is told to end."""
    learner = Learner(settings, seed)
    steps = client.open_table(replay.steps_name(prefix))
    weights = newest.Publisher(client, replay.weights_name(prefix))
    sampler = steps.sampler(
        batch=settings.batch_rows, windows=replay.step_windows(settings.n_step), seed=seed + 1
    )
    while True:
        if learner.updates % settings.publish_period_updates == 0:
            weights.put(
                parameters=learner.online.parameters,
                updates=np.int64(learner.updates),
                loss=np.float64(learner.loss),
            )
        while steps.stats().inserts < settings.steps_due(learner.updates):
            time.sleep(0.001)
        with sampler.sample() as batch:
            rows = StepBatch.of(batch)
            priorities = learner.update(rows)
            steps.update_priorities(rows.keys, priorities)


def main() -> None:
    given = children.arguments()
    children.exit_on_sigterm()
    with gear.connect(given["endpoint"], name="learner") as client:
        learn(client, given["prefix"], Settings(), given["seed"])


if __name__ == "__main__":
    main()
