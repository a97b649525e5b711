"""What actors store, made ahead so that making it is not measured."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from rows import ACTIONS, FEATURES, FRAME, Work

Columns = dict[str, np.ndarray]

# Columns of one step: dtype and shape. "obs" and "frame" have one more entry an episode, the final one.
_COLUMNS = {
    "transition": {"obs": ("float32", (4,)), "action": ("int64", ()), "reward": ("float32", ()), "done": ("bool", ())},
    "frame": {"frame": ("uint8", FRAME), "action": ("int64", ()), "reward": ("float32", ()), "done": ("bool", ())},
    "window": {"obs": ("float32", (FEATURES,)), "action": ("float32", (ACTIONS,)), "reward": ("float32", ())},
}
FINAL = {"transition": "obs", "frame": "frame"}


def columns(work: Work) -> dict[str, tuple[str, tuple[int, ...]]]:
    if work.data == "payload":
        return {"payload": ("float32", (work.payload_floats,))}
    return _COLUMNS[work.data]


def _frames(count: int, rng: np.random.Generator) -> np.ndarray:
    """A still picture with eight moving blocks: compresses about as well as an arcade game's."""
    still = np.repeat(np.arange(FRAME[0], dtype=np.uint8)[:, None] // 12 * 24, FRAME[1], axis=1)
    frames = np.repeat(still[None], count, axis=0)
    begin = rng.integers(0, FRAME[0] - 8, size=(8, 2))
    speed = rng.integers(-2, 3, size=(8, 2))
    for t in range(count):
        for place, step in zip(begin, speed):
            y, x = (place + t * step) % (FRAME[0] - 8)
            frames[t, y : y + 8, x : x + 6] = 200
    return frames


def episode(work: Work, seed: int) -> Columns:
    """One episode, [steps, ...] a column, the column in FINAL with one entry more."""
    rng = np.random.default_rng(seed)
    made: Columns = {}
    for name, (dtype, shape) in columns(work).items():
        count = work.episode + (FINAL.get(work.data) == name)
        if name == "frame":
            made[name] = _frames(count, rng)
        elif name == "done":
            made[name] = np.arange(count) == count - 1
        elif dtype == "int64":
            made[name] = rng.integers(0, 4, size=(count, *shape))
        else:
            made[name] = rng.standard_normal((count, *shape), dtype=np.float32)
    return made


def episodes(work: Work) -> Iterator[Columns]:
    """As many as fill the table; four different ones, over and over."""
    made = [episode(work, seed) for seed in range(4)]
    for index in range(work.steps // work.episode):
        yield made[index % len(made)]


def payload_chunks(work: Work, writer: int) -> list[np.ndarray]:
    """Chunks [chunk, floats] of random, so incompressible, payloads. The first and the last number of
    a payload are equal and its own, so that a torn one shows. Made once a process."""
    return _chunks(dataclasses.replace(work, steps=0), writer)


@functools.cache
def _chunks(work: Work, writer: int) -> list[np.ndarray]:
    rng = np.random.default_rng(writer + 1)
    count = max(2, min(64, 32_000_000 // (work.chunk * work.item_bytes)))
    chunks = []
    for index in range(count):
        chunk = rng.standard_normal((work.chunk, work.payload_floats), dtype=np.float32)
        tags = writer * 1_000_000 + index * work.chunk + np.arange(work.chunk, dtype=np.float32)
        chunk[:, 0] = chunk[:, -1] = tags
        chunks.append(chunk)
    return chunks


def torn(payload: np.ndarray) -> int:
    """Of [rows, floats]: rows that two payloads are mixed in."""
    return int((payload[:, 0] != payload[:, -1]).sum())


def priorities(rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random(rows) + 0.01
