"""TorchRL: in the learner's process where only sampling is measured, else shared through a memory map.

Best configuration: ReplayBuffer over LazyTensorStorage, one torch thread and no prefetching thread (both
measured slower with two on two cores); the C++ sum tree of PrioritizedSampler; SliceSampler with cached
episode ends for frames and windows, so that each step is stored once. `torchrl_peer.py copies` stores
every stack and window whole instead: faster to sample, for 5 and 20 times the memory. Across processes:
LazyMemmapStorage, shared=True, inherited by forked writers, which extend by a chunk of steps a call.
Batches are new torch tensors.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from importlib.metadata import version
from typing import Any

import data
import numpy as np
import peer
import torch
from rows import ALPHA, BETA, STACK, STEPS, Work
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, SliceSampler

logging.getLogger("torchrl").setLevel(logging.WARNING)
_RUNS = {"frame": STACK, "window": STEPS}  # steps of an item, where it is more than one
torch.set_num_threads(1)  # before the fork; and two cores are shared by all processes


def _tensors(columns: dict[str, np.ndarray]) -> TensorDict:
    count = min(len(column) for column in columns.values())
    return TensorDict({name: torch.from_numpy(column[:count]) for name, column in columns.items()}, [count])


def _copies(episode: dict[str, np.ndarray], length: int) -> TensorDict:
    """Every run of `length` steps of an episode, copied whole."""
    runs = {
        name: np.lib.stride_tricks.sliding_window_view(column, length, axis=0) for name, column in episode.items()
    }
    return _tensors({name: np.ascontiguousarray(np.moveaxis(run, -1, 1)) for name, run in runs.items()})


class TorchrlWriter(peer.Writer):
    def __init__(self, buffer: Any, copies: int = 0) -> None:
        self._buffer = buffer
        self._copies = copies
        self._known: dict[int, TensorDict] = {}

    def fill(self, work: Work) -> None:
        if work.data == "payload":
            chunks = data.payload_chunks(work, 0)
            for index in range(work.steps // work.chunk):
                self.put(chunks[index % len(chunks)])
            return
        for number, episode in enumerate(data.episodes(work)):
            if self._copies:
                self._buffer.extend(_copies(episode, self._copies))
                continue
            if work.data == "transition":
                episode = {**episode, "next_obs": episode["obs"][1:]}
            elif work.data in ("frame", "window"):
                episode = {**episode, "episode": np.full(work.episode, number)}
            self._buffer.extend(_tensors(episode))

    def put(self, chunk: np.ndarray) -> None:
        tensors = self._known.get(id(chunk))
        if tensors is None:
            tensors = self._known[id(chunk)] = _tensors({"payload": chunk})
        self._buffer.extend(tensors)


class Torchrl(peer.System):
    writers_first = False

    def __init__(self, copies: bool) -> None:
        self._copies = copies

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("torchrl", "tensordict", "torch", "numpy")}

    def unable(self, work: Work) -> str | None:
        return "only for frames and windows" if self._copies and work.data not in _RUNS else None

    def open(self, work: Work) -> None:
        self._directory = None
        self._data = work.data
        kind: Any = ReplayBuffer
        options: dict[str, Any] = {"storage": LazyTensorStorage(work.steps), "batch_size": work.batch}
        if work.prioritized:
            kind = TensorDictReplayBuffer
            options["sampler"] = PrioritizedSampler(work.steps, ALPHA, BETA)
        self._slice = 0 if self._copies else _RUNS.get(work.data, 0)
        if self._slice:
            options["batch_size"] = work.batch * self._slice
            options["sampler"] = SliceSampler(num_slices=work.batch, traj_key="episode", cache_values=True)
        if work.writers:
            self._directory = tempfile.mkdtemp(prefix="gear-peers-", dir="/dev/shm")
            options["storage"] = LazyMemmapStorage(work.steps, scratch_dir=self._directory)
            options["shared"] = True
        self._buffer = kind(**options)
        if work.writers:
            # The map is made by the first extend, which must precede the fork.
            self._buffer.extend(_tensors({"payload": data.payload_chunks(work, 0)[0]}))
        self._random = np.random.default_rng(1)

    def address(self) -> Any:
        return self._buffer, _RUNS[self._data] if self._copies else 0

    @staticmethod
    def writer(work: Work, address: Any) -> peer.Writer:
        return TorchrlWriter(*address)

    def fills_itself(self, work: Work) -> bool:
        return not work.writers

    def sample(self) -> TensorDict:
        batch = self._buffer.sample()
        return batch.reshape(-1, self._slice) if self._slice else batch

    def payload(self, batch: TensorDict) -> np.ndarray:
        return batch["payload"].numpy()

    def update(self, batch: TensorDict) -> None:
        index = batch["index"]
        self._buffer.update_priority(index, torch.from_numpy(data.priorities(len(index), self._random)).float())

    def close(self) -> None:
        self._buffer = None
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)


if __name__ == "__main__":
    peer.serve(Torchrl(sys.argv[1:] == ["copies"]))
