"""cpprb. `cpprb_peer.py`: in the learner's process; `cpprb_peer.py mp`: its multi-process buffers.

Best configuration, in process: next_obs as a column of its own (faster than next_of, which computes
neighbours); stack_compress for frames and windows, which stores each step once, as GEAR does.
Across processes: MPReplayBuffer and MPPrioritizedReplayBuffer, inherited by forked writers; they have no
stack_compress, so frames and windows are left to the other one. Writers add a chunk of steps a call.
sample() returns new numpy arrays.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import cpprb
import data
import numpy as np
import peer
from rows import ALPHA, BETA, FRAME, STACK, STEPS, Work


def _env(work: Work) -> dict[str, dict[str, Any]]:
    env = {name: {"dtype": np.dtype(dtype), "shape": shape or 1} for name, (dtype, shape) in data.columns(work).items()}
    if work.data == "transition":
        env["next_obs"] = env["obs"]
    elif work.data == "frame":
        env["frame"]["shape"] = (*FRAME, STACK)
    elif work.data == "window":
        env = {name: {**column, "shape": (*np.atleast_1d(column["shape"]), STEPS)} for name, column in env.items()}
    return env


class CpprbWriter(peer.Writer):
    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def fill(self, work: Work) -> None:
        if work.data == "payload":
            chunks = data.payload_chunks(work, 0)
            for index in range(work.steps // work.chunk):
                self.put(chunks[index % len(chunks)])
            return
        for episode in data.episodes(work):
            if work.data == "transition":
                self._buffer.add(**{**episode, "obs": episode["obs"][:-1]}, next_obs=episode["obs"][1:])
            else:
                self._stacked(work, episode)
            self._buffer.on_episode_end()

    def _stacked(self, work: Work, episode: dict[str, np.ndarray]) -> None:
        """Adds every run of steps of one episode, the newest at the end of the last axis."""
        if work.data == "frame":
            for t in range(STACK - 2, work.episode):
                stack = np.moveaxis(episode["frame"][t + 2 - STACK : t + 2], 0, -1)
                self._buffer.add(frame=stack, **{name: episode[name][t] for name in ("action", "reward", "done")})
            return
        for t in range(STEPS, work.episode + 1):
            self._buffer.add(**{name: np.moveaxis(column[t - STEPS : t], 0, -1) for name, column in episode.items()})

    def put(self, chunk: np.ndarray) -> None:
        self._buffer.add(payload=chunk)


class Cpprb(peer.System):
    writers_first = False

    def __init__(self, across_processes: bool) -> None:
        self._across = across_processes

    def versions(self) -> dict[str, str]:
        return {"cpprb": version("cpprb"), "numpy": np.__version__}

    def unable(self, work: Work) -> str | None:
        if self._across and work.data in ("frame", "window"):
            return "the multi-process buffers have no stack_compress"
        if not self._across and work.writers:
            return "lives in one process"
        return None

    def open(self, work: Work) -> None:
        options: dict[str, Any] = {"alpha": ALPHA} if work.prioritized else {}
        if self._across:
            options["backend"] = "SharedMemory"
            kind = cpprb.MPPrioritizedReplayBuffer if work.prioritized else cpprb.MPReplayBuffer
        else:
            kind = cpprb.PrioritizedReplayBuffer if work.prioritized else cpprb.ReplayBuffer
            if work.data in ("frame", "window"):
                options["stack_compress"] = ["frame"] if work.data == "frame" else list(data.columns(work))
        self._buffer = kind(work.steps, _env(work), **options)
        self._batch, self._prioritized = work.batch, work.prioritized
        self._random = np.random.default_rng(1)

    def address(self) -> Any:
        return self._buffer

    @staticmethod
    def writer(work: Work, address: Any) -> peer.Writer:
        return CpprbWriter(address)

    def fills_itself(self, work: Work) -> bool:
        return not self._across

    def sample(self) -> dict[str, np.ndarray]:
        if self._prioritized:
            return self._buffer.sample(self._batch, beta=BETA)
        return self._buffer.sample(self._batch)

    def payload(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        return batch["payload"]

    def update(self, batch: dict[str, np.ndarray]) -> None:
        self._buffer.update_priorities(batch["indexes"], data.priorities(self._batch, self._random))

    def close(self) -> None:
        self._buffer = None


if __name__ == "__main__":
    peer.serve(Cpprb(sys.argv[1:] == ["mp"]))
