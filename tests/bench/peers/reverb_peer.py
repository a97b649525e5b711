"""Reverb: the server in the learner's process, so that sampling skips gRPC; writers in their own.

Best configuration, each measured against its alternatives: self-contained steps (transitions, payloads)
by `Client.writer` with chunks of one step, which makes one chunk of all columns and is read without
waste; single frames and windows by the trajectory writer, items that slice the last 5 and 20 steps;
TimestepDataset or TrajectoryDataset, batched and prefetched in C++. tf.data hands out numpy arrays without
a copy. Reverb compresses every chunk (this cannot be turned off).
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import data
import numpy as np
import peer
import reverb
import tensorflow as tf
from rows import ALPHA, STACK, STEPS, Work

_TABLE = "work"
_RUNS = {"frame": STACK, "window": STEPS}  # steps of an item, and of a chunk: shorter chunks are slower
_IN_FLIGHT_BATCHES = 4
_FLUSH_EVERY = 64  # items on their way at most, a writer


def _signature(work: Work) -> dict[str, tf.TensorSpec]:
    run = _RUNS.get(work.data)
    columns = dict(data.columns(work))
    if work.data == "transition":
        columns["next_obs"] = columns["obs"]
    lead = {name: (run,) if run and (name == "frame" or work.data == "window") else () for name in columns}
    return {name: tf.TensorSpec((*lead[name], *shape), dtype, name) for name, (dtype, shape) in columns.items()}


class StepWriter(peer.Writer):
    """Steps that need no other."""

    def __init__(self, address: str) -> None:
        self._writer = reverb.Client(address).writer(max_sequence_length=1, chunk_length=1)

    def fill(self, work: Work) -> None:
        if work.data == "payload":
            chunks = data.payload_chunks(work, 0)
            for index in range(work.steps // work.chunk):
                self.put(chunks[index % len(chunks)])
            return
        for episode in data.episodes(work):
            for t in range(work.episode):
                step = {name: column[t] for name, column in episode.items()}
                self._writer.append({**step, "next_obs": episode["obs"][t + 1]})
                self._writer.create_item(_TABLE, 1, 1.0)

    def put(self, chunk: np.ndarray) -> None:
        for payload in chunk:
            self._writer.append({"payload": payload})
            self._writer.create_item(_TABLE, 1, 1.0)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class RunWriter(peer.Writer):
    """Items of several steps, each step sent once."""

    def __init__(self, address: str, work: Work) -> None:
        self._run = _RUNS[work.data]
        self._writer = reverb.Client(address).trajectory_writer(num_keep_alive_refs=2 * self._run)
        for name in data.columns(work):
            self._writer.configure((name,), num_keep_alive_refs=2 * self._run, max_chunk_length=self._run)

    def fill(self, work: Work) -> None:
        frames = work.data == "frame"
        for episode in data.episodes(work):
            for t in range(work.episode):
                self._writer.append({name: column[t] for name, column in episode.items()})
                if t + 1 < self._run:
                    continue
                history = self._writer.history
                item = {name: history[name][-self._run :] for name in episode}
                if frames:
                    item.update({name: history[name][-2] for name in ("action", "reward", "done")})
                self._writer.create_item(_TABLE, 1.0, item)
                if t % _FLUSH_EVERY == 0:
                    self._writer.flush(_FLUSH_EVERY)
            self._writer.end_episode()

    def put(self, chunk: np.ndarray) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Reverb(peer.System):
    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("dm-reverb", "tensorflow-cpu", "numpy")}

    def open(self, work: Work) -> None:
        uniform = reverb.selectors.Uniform()
        table = reverb.Table(
            _TABLE,
            sampler=reverb.selectors.Prioritized(ALPHA) if work.prioritized else uniform,
            remover=reverb.selectors.Fifo(),
            max_size=work.steps,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=_signature(work),
        )
        self._server = reverb.Server([table])
        self._client = reverb.Client(self.address())
        self._random = np.random.default_rng(1)

    def ready(self, work: Work) -> None:
        kind = reverb.TrajectoryDataset if work.data in _RUNS else reverb.TimestepDataset
        dataset = kind.from_table_signature(
            self.address(), _TABLE, max_in_flight_samples_per_worker=_IN_FLIGHT_BATCHES * work.batch
        )
        self._batches = dataset.batch(work.batch, drop_remainder=True).prefetch(2).as_numpy_iterator()

    def address(self) -> str:
        return f"localhost:{self._server.port}"

    @staticmethod
    def writer(work: Work, address: str) -> peer.Writer:
        return RunWriter(address, work) if work.data in _RUNS else StepWriter(address)

    def sample(self) -> Any:
        return next(self._batches)

    def payload(self, batch: Any) -> np.ndarray:
        return batch.data["payload"]

    def update(self, batch: Any) -> None:
        keys = batch.info.key.tolist()
        updates = dict(zip(keys, data.priorities(len(keys), self._random).tolist()))
        self._client.mutate_priorities(_TABLE, updates)

    def close(self) -> None:
        self._batches = None
        self._server.stop()
        self._server = None


if __name__ == "__main__":
    peer.serve(Reverb())
