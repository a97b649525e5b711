"""What tables, samplers and servers tell about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gear.options import Column, Limiter


@dataclass(frozen=True)
class TableInfo:
    """What does not change about a table. Sizes in bytes; see gear_table_options for the rest."""

    name: str
    table_id: int
    columns: dict[str, Column]
    capacity_items: int
    capacity_steps: int
    episode_steps_max: int
    items: str
    item_length: int
    item_period: int
    short_episodes: int
    sampler: str
    remover: str
    priority_alpha: float
    priority_epsilon: float
    max_times_sampled: int
    lanes_max: int
    limiter: Limiter
    window_before_max: int
    window_after_max: int
    block_steps: int
    block_count: int
    block_bytes: int
    directory_bytes: int
    data_bytes: int
    memory: str
    direct: bool
    payload_isolation: str
    writers_max: int


@dataclass(frozen=True)
class TableStats:
    """Counts since creation or reset; `items`, `blocks_free` and `lanes_open` are of now.

    state: "open", "closed" or "dropped". samples: leased draws; direct draws are not counted.
    """

    state: str
    items: int
    inserts: int
    samples: int
    deletes: int
    steps: int
    episodes: int
    evictions: int
    blocks_free: int
    lanes_open: int
    priority_max: float


@dataclass(frozen=True)
class SamplerStats:
    """direct: this sampler draws by itself. redrawn: rows that moved while they were copied, and
    were drawn again. bytes: copied into batches."""

    direct: bool
    batches: int
    rows: int
    redrawn: int
    bytes: int


@dataclass(frozen=True)
class ServerInfo:
    """The server's own account. uptime: seconds. version: major << 16 | minor << 8 | patch."""

    pid: int
    version: int
    layout_version: int
    layout_fingerprint: int
    instance_id: int
    uptime: float
    clients: int
    tables: int
    writers: int
    samplers: int
    records: int
    wakeups: int
    event_loop: str


class ItemsResult(NamedTuple):
    """What became of a list of keys.

    updated:  or deleted. stale: the item has gone. unknown: never a key of this table.
    rejected: the priority was NaN, infinite or negative; the others proceeded.
    """

    updated: int
    stale: int
    unknown: int
    rejected: int
