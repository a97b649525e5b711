"""Steps whose cells are a function of their number, and waiting for what the server does next."""

from __future__ import annotations

import time
from collections.abc import Callable

import gear
import numpy as np


def x_of(n: int) -> np.ndarray:
    return np.array([n, -n, 0.5 * n], np.float32)


def append_steps(writer: gear.Writer, lane: int, begin: int, count: int) -> None:
    for n in range(begin, begin + count):
        writer.append(lane, x=x_of(n), n=np.int64(n))


def filled(table: gear.Table, count: int) -> gear.Writer:
    """A writer that appended steps 0..count-1 to its lane 0; they can be drawn."""
    writer = table.writer()
    append_steps(writer, 0, 0, count)
    writer.flush()
    return writer


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """For states that the server reaches by itself a moment later."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "the state did not come"
        time.sleep(0.001)
