"""An actor that plays Atari at random and writes its frames straight into shared memory."""

from __future__ import annotations

import ale_py
import gear
import gymnasium
import numpy as np
from harness import children
from harness.episodes import Reporter
from numpy.typing import NDArray

from frames import replay
from frames.resize import Resizer


class FrameActor:
    """Environments, each with a lane of the frames table. One thread.

    A step is made in place: reserve gives the views of the lane's next step, the resized frame is
    written there, and advance appends it.
    """

    def __init__(
        self, envs: list[gymnasium.Env], writer: gear.Writer, reporter: Reporter, seed: int
    ) -> None:
        self._envs = envs
        self._writer = writer
        self._reporter = reporter
        self._rng = np.random.default_rng(seed)
        self._frames = [env.reset(seed=seed + lane)[0] for lane, env in enumerate(envs)]
        height, width = self._frames[0].shape
        self._resizer = Resizer(height, width, replay.SIZE)
        self._action_count = action_count(envs[0])
        self._final = np.empty((replay.SIZE, replay.SIZE), np.uint8)

    def step(self) -> None:
        """One step of every lane."""
        rewards = np.zeros(len(self._envs), np.float32)
        ended = []
        for lane, env in enumerate(self._envs):
            action = int(self._rng.integers(self._action_count))
            frame, reward, terminated, truncated, _ = env.step(action)
            rewards[lane] = reward
            self._append(lane, action, float(reward), terminated)
            if terminated or truncated:
                self._end_episode(lane, frame, terminated)
                frame, _ = env.reset()
                ended.append(lane)
            self._frames[lane] = frame
        self._reporter.add(rewards)
        for lane in ended:
            self._reporter.finish(lane)

    def _append(self, lane: int, action: int, reward: float, terminated: bool) -> None:
        place = self._writer.reserve(lane)
        self._resizer.into(self._frames[lane], out=place["frame"])
        place["action"][...] = action
        place["reward"][...] = reward
        place["terminated"][...] = terminated
        self._writer.advance(lane)

    def _end_episode(self, lane: int, frame: NDArray[np.uint8], terminated: bool) -> None:
        self._resizer.into(frame, out=self._final)
        end: gear.End = gear.TERMINATED if terminated else gear.TRUNCATED
        self._writer.end_episode(lane, end, frame=self._final)


def action_count(env: gymnasium.Env) -> int:
    space = env.action_space
    assert isinstance(space, gymnasium.spaces.Discrete), f"{space} is not discrete"
    return int(space.n)


def make_env(name: str) -> gymnasium.Env:
    gymnasium.register_envs(ale_py)
    return gymnasium.make(name, obs_type="grayscale")


def main() -> None:
    given = children.arguments()
    children.exit_on_sigterm()
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    actor, lanes = given["actor"], given["lanes"]
    with gear.connect(given["endpoint"], name=f"actor {actor}") as client:
        frames = client.open_table(replay.frames_name(given["prefix"]))
        player = FrameActor(
            [make_env(given["env"]) for _ in range(lanes)],
            frames.writer(lanes=lanes),
            Reporter(client, given["episodes"], actor, lanes),
            seed=1000 * given["seed"] + 100 * actor,
        )
        while True:
            player.step()


if __name__ == "__main__":
    main()
