"""A table that holds one item, the newest: how a process tells all others its latest state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gear


def create(client: gear.Client, name: str, columns: Mapping[str, Any]) -> None:
    """Creates the table. The fifo remover drops the item before whenever one is appended."""
    client.create_table(name, columns, capacity_items=1, lanes_max=1)


class Publisher:
    """Puts values there. One process."""

    def __init__(self, client: gear.Client, name: str) -> None:
        self._writer = client.open_table(name).writer()

    def put(self, **values: Any) -> None:
        self._writer.append(0, values)


class Reader:
    """Draws the newest values. Any number of processes; no round trip to the daemon."""

    def __init__(self, client: gear.Client, name: str) -> None:
        self._sampler = client.open_table(name).sampler(batch=1)

    def get(self, timeout: float = 30.0) -> dict[str, Any]:
        """Copies of all columns. Waits up to `timeout` seconds for the first put; then TimedOut."""
        with self._sampler.sample(timeout=timeout) as batch:
            return {name: batch[name][0].copy() for name in batch.names()}
