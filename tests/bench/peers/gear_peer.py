"""GEAR: geard, writers in processes of their own, and a learner that samples directly.

Best configuration: steps are stored once and a window makes stacks, windows and next observations, so
every row is one or few contiguous copies; frames are one window of five, of which the learner takes
[:, :4] and [:, 1:]. The table is told how far its windows reach and how many lanes there are, for it keeps
blocks for both. Batches are numpy arrays in the sampler's own memory, valid until released, so
nothing is copied again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import data
import gear
import numpy as np
import peer
from rows import ALPHA, BETA, STACK, STEPS, Work

_GEARD = Path(__file__).resolve().parents[3] / "build" / "release" / "geard"
_NAME = "work"


class GearWriter(peer.Writer):
    def __init__(self, endpoint: str) -> None:
        self._client = gear.connect(endpoint)
        self._writer = self._client.open_table(_NAME).writer()

    def fill(self, work: Work) -> None:
        if work.data == "payload":
            chunks = data.payload_chunks(work, 0)
            for index in range(work.steps // work.chunk):
                self.put(chunks[index % len(chunks)])
            return
        final = data.FINAL.get(work.data)
        for episode in data.episodes(work):
            last = {final: episode[final][-1]} if final else {}
            self._writer.append_many(0, {name: column[: work.episode] for name, column in episode.items()})
            self._writer.end_episode(0, gear.TERMINATED, last)

    def put(self, chunk: np.ndarray) -> None:
        self._writer.append_many(0, payload=chunk)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._client.close()


class Gear(peer.System):
    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="gear-peers-")
        self._endpoint = f"unix:{self._directory}/geard.sock"
        self._geard: subprocess.Popen[bytes] | None = None

    def versions(self) -> dict[str, str]:
        return {"gear": gear.__version__, "numpy": np.__version__}

    def _start(self) -> None:
        self._geard = subprocess.Popen(
            [os.environ.get("GEARD", _GEARD), "--log-level", "warning", "--socket", self._endpoint[5:]],
            stdin=subprocess.DEVNULL,
            preexec_fn=peer.end_with_parent,
        )
        for _ in range(500):
            try:
                return gear.connect(self._endpoint).close()
            except gear.NoServer:
                time.sleep(0.02)
        raise RuntimeError("geard does not come up")

    def open(self, work: Work) -> None:
        if self._geard is None:
            self._start()
        options: dict[str, Any] = {}
        if work.prioritized:
            options = {"sampler": "prioritized", "priority_alpha": ALPHA}
        if work.data == "window":
            options = {"items": "sequence", "item_length": STEPS, "item_period": 1, "capacity_steps": work.steps}
        options["window_before_max"] = STACK - 2 if work.data == "frame" else 1
        options["window_after_max"] = 1
        self._client = gear.connect(self._endpoint)
        self._table = self._client.create_table(
            _NAME, data.columns(work), work.steps, lanes_max=peer.WRITERS_MAX, **options
        )
        names = list(data.columns(work))
        self._windows = [gear.Window(name) for name in names]
        if work.data == "transition":
            self._windows.append(gear.Window("obs", offset=1, name="next_obs"))
        elif work.data == "frame":
            self._windows[0] = gear.Window("frame", offset=2 - STACK, length=STACK, fill="edge")
        elif work.data == "window":
            self._windows = [gear.Window(name, length=STEPS) for name in names]
        self._wanted = [window.name or window.column for window in self._windows]
        self._prioritized = work.prioritized
        self._sampler = self._table.sampler(
            work.batch, self._windows, batches=2, beta=BETA if work.prioritized else 0.0
        )
        self._random = np.random.default_rng(1)
        self._held: gear.Batch | None = None

    def address(self) -> str:
        return self._endpoint

    @staticmethod
    def writer(work: Work, address: str) -> peer.Writer:
        return GearWriter(address)

    def sample(self) -> dict[str, np.ndarray]:
        held, self._held = self._held, None
        if held is not None:
            held.release()
        batch = self._held = self._sampler.sample()
        arrays = {name: batch[name] for name in self._wanted}
        if self._prioritized:
            arrays["keys"], arrays["weights"] = batch.keys, batch.weights
        return arrays

    def payload(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        return batch["payload"]

    def update(self, batch: dict[str, np.ndarray]) -> None:
        keys = batch["keys"]
        self._table.update_priorities(keys, data.priorities(len(keys), self._random))

    def close(self) -> None:
        self._held = None
        self._client.drop(_NAME)
        self._client.close()

    def finish(self) -> None:
        if self._geard is not None:
            self._geard.terminate()
            self._geard.wait(10)
        shutil.rmtree(self._directory, ignore_errors=True)


if __name__ == "__main__":
    peer.serve(Gear())
