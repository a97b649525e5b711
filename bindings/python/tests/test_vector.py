"""Vector environments, lanes with names, and epochs."""

from __future__ import annotations

from typing import Any

import gear
import numpy as np
import pytest
from steps import filled, x_of

EPISODES = 6
ENVS = 4


def arrays(lanes: int, n: int) -> dict[str, np.ndarray]:
    return {"x": np.stack([x_of(n)] * lanes), "n": np.full(lanes, n)}


def test_vector_step_is_a_step_of_every_lane_that_takes_part(table):
    writer = table.writer(lanes=3)
    writer.append_vector(arrays(3, 0))
    writer.append_vector(**arrays(3, 1), skip=np.array([False, True, False]))
    writer.flush()
    assert table.stats().steps == 5


def test_marked_lanes_end_with_their_final_observation(table):
    writer = table.writer(lanes=2)
    ends = np.array([True, False])
    writer.append_vector(arrays(2, 0), terminated=ends, final={"n": np.array([100, 101])})
    writer.append_vector(arrays(2, 1))
    writer.flush()
    assert table.stats().episodes == 1
    windows = [gear.Window("n"), gear.Window("n", 1, name="next")]
    with table.sampler(64, windows, seed=1).sample() as batch:
        assert set(batch["next"][batch["n"] == 0].tolist()) == {100, 1}


def test_arrays_that_are_not_one_row_a_lane_are_refused(table):
    writer = table.writer(lanes=3)
    with pytest.raises(gear.ShapeError, match="3 lanes"):
        writer.append_vector(arrays(2, 0))
    with pytest.raises(gear.ShapeError, match="terminated"):
        writer.append_vector(arrays(3, 0), terminated=np.ones(2, bool))
    with pytest.raises(gear.ShapeError, match="3 lanes"):
        writer.append_vector(arrays(3, 0), final={"n": np.arange(2)})
    with pytest.raises(gear.DtypeError):
        writer.append_vector(arrays(3, 0), truncated=np.ones(3, np.int8))
    writer.flush()
    assert table.stats().steps == 0


def test_vector_step_that_found_no_space_tells_the_lanes_dealt_with(client):
    queue = client.create_queue("q", {"n": "int64"}, 2, block_steps=1)
    writer = queue.writer(lanes=3)
    appended = 0
    with pytest.raises(gear.TimedOut) as caught:
        while appended < 10_000:
            writer.append_vector(n=np.arange(3), timeout=0.05)
            appended += 3
    assert 0 <= caught.value.accepted < 3
    done = np.arange(3) < caught.value.accepted
    sampler = queue.sampler(1)
    drawn = []
    rest = True
    while len(drawn) < appended + 3:
        if rest:
            try:
                writer.append_vector(n=np.arange(3), skip=done, timeout=0.05)
                rest = False
            except gear.TimedOut as error:
                done |= np.arange(3) < error.accepted
        with sampler.sample() as batch:
            drawn.append(int(batch["n"][0]))
    assert not rest
    assert drawn == list(range(3)) * (len(drawn) // 3)


def cartpole(seed: int, style: str | None) -> Any:
    """One CartPole, or ENVS of them whose resets come in this style."""
    gymnasium = pytest.importorskip("gymnasium")
    if style is None:
        return gymnasium.make("CartPole-v1", max_episode_steps=20)
    modes = gymnasium.vector.AutoresetMode
    mode = {"disabled": modes.DISABLED, "next_step": modes.NEXT_STEP, "same_step": modes.SAME_STEP}
    return gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1", max_episode_steps=20)] * ENVS,
        autoreset_mode=mode[style],
    )


def policy(observation: np.ndarray) -> np.ndarray:
    """Now and then wrong, so that some episodes end before they are cut off."""
    lean = observation[..., 2] + 0.3 * observation[..., 3]
    return (lean + 0.4 * np.sin(40 * observation[..., 0]) > 0).astype(np.int64)


COLUMNS = {
    "observation": ("float32", (4,)),
    "action": "int64",
    "reward": "float64",
    "seed": "int64",
}


def stored(table: gear.Table) -> list[tuple]:
    """Every step once, with what came next and how long the item was; in an order of its own."""
    windows = [
        *(gear.Window(name) for name in COLUMNS),
        gear.Window("observation", 1, name="next"),
        gear.Window("observation", -1, name="previous"),
    ]
    sampler = table.sampler(64, windows, order="epoch", anchor="every_step", seed=1)
    rows = []
    for _ in range(sampler.begin_epoch(0)):
        with sampler.sample(1) as batch:
            rows.append(
                (
                    batch["observation"][0].tobytes(),
                    int(batch["action"][0]),
                    float(batch["reward"][0]),
                    batch["next"][0].tobytes(),
                    batch["previous"][0].tobytes(),
                )
            )
    return sorted(rows)


def plain_loop(table: gear.Table) -> tuple[int, int]:
    """Each environment by itself; (terminated, truncated) episodes."""
    kinds = [0, 0]
    for i in range(ENVS):
        env = cartpole(0, None)
        writer = table.writer()
        observation, _ = env.reset(seed=i)
        for _ in range(EPISODES):
            ended = False
            while not ended:
                action = policy(observation)
                after, reward, terminated, truncated, _ = env.step(int(action))
                writer.append(
                    0, observation=observation, action=action, reward=np.float64(reward), seed=i
                )
                observation, ended = after, terminated or truncated
            end = "terminated" if terminated else "truncated"
            kinds[not terminated] += 1
            writer.end_episode(0, end, observation=observation)
            observation, _ = env.reset()
        writer.flush()
        writer.close()
    return kinds[0], kinds[1]


def vector_loop(table: gear.Table, style: str) -> None:
    envs = cartpole(0, style)
    writer = table.writer(lanes=ENVS, autoreset=style)
    observation, _ = envs.reset(seed=list(range(ENVS)))
    ended = np.zeros(ENVS, int)
    while (ended < EPISODES).any():
        action = policy(observation)
        after, reward, terminated, truncated, info = envs.step(action)
        final = after
        if style == "same_step":
            final = np.zeros_like(after)
            for i in np.flatnonzero(terminated | truncated):
                final[i] = info["final_obs"][i]
        writer.append_vector(
            observation=observation,
            action=action,
            reward=np.asarray(reward, np.float64),
            seed=np.arange(ENVS),
            terminated=terminated,
            truncated=truncated,
            skip=ended >= EPISODES,
            final={"observation": final},
        )
        done = terminated | truncated
        ended += done
        observation = after.copy()
        if style == "disabled" and done.any():
            observation, _ = envs.reset(options={"reset_mask": done})
            observation = observation.copy()
    writer.flush()


@pytest.mark.parametrize("style", ["disabled", "next_step", "same_step"])
def test_autoreset_style_stores_what_a_plain_loop_stores(client, style):
    wanted = client.create_table("plain", COLUMNS, 2000)
    given = client.create_table("vector", COLUMNS, 2000)
    terminated, truncated = plain_loop(wanted)
    assert terminated > 0
    assert truncated > 0
    vector_loop(given, style)
    assert given.stats().episodes == wanted.stats().episodes == ENVS * EPISODES
    assert given.stats().steps == wanted.stats().steps
    assert stored(given) == stored(wanted)


def test_named_lane_is_taken_over(table):
    first = table.writer(2, names=[7, 8])
    first.append(0, x=x_of(0), n=0)
    first.flush()
    with pytest.raises(gear.ResourceError, match="named 7"):
        table.writer(names=[7])
    second = table.writer(names=[7], take_over=True)
    with pytest.raises(gear.Stale, match="took the lane over"):
        first.append(0, x=x_of(1), n=1)
    first.append(1, x=x_of(2), n=2)
    second.append(0, x=x_of(3), n=3)
    first.flush()
    second.flush()
    assert table.stats().steps == 3
    with pytest.raises(gear.ShapeError, match="1 names"):
        table.writer(2, names=[1])


def test_epoch_has_every_step_once_among_the_ranks(table):
    filled(table, 101)
    seen: list[int] = []
    for rank in range(3):
        sampler = table.sampler(16, seed=5, order="epoch", rank=rank, world=3)
        for epoch in range(2):
            rows = sampler.begin_epoch(epoch)
            drawn: list[int] = []
            while len(drawn) < rows:
                with sampler.sample() as batch:
                    drawn += batch["n"].tolist()
            with pytest.raises(gear.EpochOver):
                sampler.sample()
        seen += drawn
    assert sorted(seen) == list(range(101))


def test_epochs_need_their_order(table):
    filled(table, 3)
    with pytest.raises(gear.StateError, match="GEAR_ORDER_EPOCH"):
        table.sampler().begin_epoch(0)
    with pytest.raises(gear.InvalidArgument, match="rank 2 of world 2"):
        table.sampler(order="epoch", rank=2, world=2, seed=1)
