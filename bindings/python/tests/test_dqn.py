"""The demo's agent: stored episodes, n-step targets, gradients."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gear
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from dqn import replay  # noqa: E402
from dqn.actor import Actor  # noqa: E402
from dqn.learner import Learner, importance_weights  # noqa: E402
from dqn.network import QNetwork  # noqa: E402
from dqn.replay import StepBatch  # noqa: E402
from dqn.settings import Settings  # noqa: E402
from frames.resize import Resizer  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from harness import episodes  # noqa: E402

N_STEP = 3
LENGTHS = {0: 4, 1: 7}  # of lane 0 every episode terminates, of lane 1 it is truncated
SETTINGS = Settings(observation_size=2, warmup_steps=1, n_step=N_STEP, hidden=8)


class CountingEnv(gymnasium.Env):
    """Shows (lane, steps so far); the reward of step t is t + 1."""

    observation_space = gymnasium.spaces.Box(0, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, lane: int) -> None:
        self._lane = lane
        self._count = 0

    def reset(self, *, seed=None, options=None):
        self._count = 0
        return self._show(), {}

    def step(self, action):
        self._count += 1
        ends = self._count == LENGTHS[self._lane]
        is_terminal = self._lane == 0
        return self._show(), float(self._count), ends and is_terminal, ends and not is_terminal, {}

    def _show(self):
        return np.array([self._lane, self._count], np.float32)


class Still:
    """A policy that always takes action 1."""

    updates = 0

    def actions(self, observations):
        return np.ones(len(observations), np.int64)


@pytest.fixture
def played(client):
    """The steps table after 40 steps of both lanes, and the queue of their episodes."""
    replay.create(client, "p", SETTINGS, lanes=2)
    episodes.create(client, "p/episodes")
    table = client.open_table(replay.steps_name("p"))
    env = SyncVectorEnv(
        [lambda: CountingEnv(0), lambda: CountingEnv(1)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    writer = table.writer(lanes=2)
    actor = Actor(env, writer, episodes.Reporter(client, "p/episodes", actor=3, lanes=2))
    actor.reset(seed=0)
    for _ in range(40):
        actor.step(Still())
    writer.flush()
    return table


def drawn(table: gear.Table) -> StepBatch:
    sampler = table.sampler(batch=256, windows=replay.step_windows(N_STEP), seed=4)
    batch = StepBatch.of(sampler.sample())
    assert len(np.unique(batch.keys)) > 60
    return batch


def test_stored_episodes_end_with_their_true_final_observation(played):
    batch = drawn(played)
    for row, (lane, count) in enumerate(batch.observation.astype(int).tolist()):
        assert count < LENGTHS[lane]
        for k in range(N_STEP):
            following = count + k + 1
            # The newest steps of the open episodes have fewer successors than they will have.
            if batch.next_mask[row, k]:
                assert following <= LENGTHS[lane]
                assert batch.next_observation[row, k].tolist() == [lane, following]
                assert batch.reward[row, k] == following
                assert batch.terminated[row, k] == (lane == 0 and following == LENGTHS[lane])
            elif following <= LENGTHS[lane]:
                assert 40 % LENGTHS[lane] - following < N_STEP


def test_finished_episodes_reach_the_main_process(client, played):
    fetcher = episodes.Fetcher(client, "p/episodes")
    finished: list[episodes.Episode] = []
    # The actor does not flush its reports, and a fetch does not wait for them.
    deadline = time.monotonic() + 10.0
    while len(finished) < 15 and time.monotonic() < deadline:
        finished += fetcher.fetch()
    assert [episode.length for episode in finished].count(4) == 10
    assert [episode.length for episode in finished].count(7) == 5
    assert {episode.total for episode in finished} == {10.0, 28.0}
    assert {episode.actor for episode in finished} == {3}


def test_targets_are_n_step_returns_with_the_bootstrap_that_the_end_allows(played):
    batch = drawn(played)
    learner = Learner(SETTINGS, seed=0)
    learner.target.parameters[...] = np.random.default_rng(1).normal(
        size=len(learner.target.parameters)
    )
    targets, usable = learner.targets(batch)
    for row, (lane, count) in enumerate(batch.observation.astype(int).tolist()):
        total, factor, end = 0.0, 1.0, None
        for k in range(N_STEP):
            if not batch.next_mask[row, k]:
                break
            total += factor * (count + k + 1)
            factor *= SETTINGS.discount
            end = count + k + 1
        assert usable[row] == (end is not None)
        if end is None:
            continue
        if not (lane == 0 and end == LENGTHS[lane]):
            state = np.array([[lane, end]], np.float32)
            best = learner.online.values(state)[0].argmax()
            total += factor * learner.target.values(state)[0, best]
        assert targets[row] == pytest.approx(total, rel=1e-4)


def test_rows_without_a_successor_keep_their_priority_and_teach_nothing(played):
    batch = drawn(played)
    batch.next_mask = np.zeros_like(batch.next_mask)
    learner = Learner(SETTINGS, seed=0)
    before = learner.online.parameters.copy()
    priorities = learner.update(batch)
    assert (priorities == batch.priorities).all()
    assert (learner.online.parameters == before).all()


def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    network = QNetwork(3, 5, 2, seed=1)
    network.parameters += rng.normal(0, 0.1, len(network.parameters)).astype(np.float32)
    observations = rng.normal(size=(6, 3)).astype(np.float32)
    actions = rng.integers(0, 2, 6)
    targets = rng.normal(0, 2, 6).astype(np.float32)
    weights = rng.random(6).astype(np.float32)

    def loss() -> float:
        errors = network.values(observations)[np.arange(6), actions] - targets
        size = np.abs(errors)
        huber = np.where(size <= 1, 0.5 * errors**2, size - 0.5)
        return float((weights * huber).mean())

    gradient, _ = network.gradient(observations, actions, targets, weights, 1.0)
    for index in range(0, len(gradient), 3):
        kept = network.parameters[index]
        network.parameters[index] = kept + 1e-2
        above = loss()
        network.parameters[index] = kept - 1e-2
        below = loss()
        network.parameters[index] = kept
        assert gradient[index] == pytest.approx((above - below) / 2e-2, abs=5e-3)


def test_importance_weights_undo_the_bias_of_the_draw():
    probabilities = np.array([0.1, 0.2, 0.4])
    assert importance_weights(probabilities, 1.0).tolist() == pytest.approx([1.0, 0.5, 0.25])
    assert importance_weights(probabilities, 0.0).tolist() == [1.0, 1.0, 1.0]


def test_resizing_keeps_the_mean_and_flat_areas():
    frame = np.random.default_rng(0).integers(0, 256, (210, 160), np.uint8)
    small = np.empty((84, 84), np.uint8)
    resizer = Resizer(210, 160, 84)
    resizer.into(frame, small)
    assert abs(small.mean() - frame.mean()) < 0.5
    resizer.into(np.full((210, 160), 77, np.uint8), small)
    assert (small == 77).all()
