"""GEAR: shared-memory experience replay.

    import gear

    with gear.connect("embedded:") as client:
        table = client.create_table("steps", {"x": ("float32", (4,))}, capacity_items=1000)
        writer = table.writer(lanes=2)
        sampler = table.sampler(batch=32)

Actors append steps to lanes of a table; learners draw batches from it. Times are in seconds.
"""

from typing import Final

from gear._gear import Batch, Sampler, Writer
from gear._gear import version as __version__
from gear.client import Client, Table, connect
from gear.errors import (
    Busy,
    Closed,
    Disconnected,
    Dropped,
    DtypeError,
    EpochOver,
    Error,
    Exists,
    InvalidArgument,
    NoColumn,
    NoMemory,
    NoServer,
    NoSpace,
    NotFound,
    NotPermitted,
    ResourceError,
    ServerError,
    ShapeError,
    Stale,
    StateError,
    SystemFailure,
    TimedOut,
    Unsupported,
    VersionMismatch,
)
from gear.info import ItemsResult, SamplerStats, ServerInfo, TableInfo, TableStats
from gear.options import Column, End, Limiter, Window

TERMINATED: Final = "terminated"
TRUNCATED: Final = "truncated"

__all__ = [
    "TERMINATED",
    "TRUNCATED",
    "Batch",
    "Busy",
    "Client",
    "Closed",
    "Column",
    "Disconnected",
    "Dropped",
    "DtypeError",
    "EpochOver",
    "End",
    "Error",
    "Exists",
    "InvalidArgument",
    "ItemsResult",
    "Limiter",
    "NoColumn",
    "NoMemory",
    "NoServer",
    "NoSpace",
    "NotFound",
    "NotPermitted",
    "ResourceError",
    "Sampler",
    "SamplerStats",
    "ServerError",
    "ServerInfo",
    "ShapeError",
    "Stale",
    "StateError",
    "SystemFailure",
    "Table",
    "TableInfo",
    "TableStats",
    "TimedOut",
    "Unsupported",
    "VersionMismatch",
    "Window",
    "Writer",
    "__version__",
    "connect",
]
