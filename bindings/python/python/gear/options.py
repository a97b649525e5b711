"""What describes a table and a sampler: columns, limiters, windows."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gear import _gear
from gear.errors import error_of

_EINVAL = -100

End = Literal["terminated", "truncated"]
Items = Literal["step", "episode", "sequence", "explicit"]
Selector = Literal[
    "default", "uniform", "fifo", "prioritized", "lifo", "max_heap", "min_heap", "top_k", "recency",
    "mixture",
]  # fmt: skip
Memory = Literal["default", "posix", "memfd"]
Want = Literal["no", "try", "required"]
Isolation = Literal["none", "per_writer"]
Pad = Literal["none", "left", "right"]
Fill = Literal["zero", "edge"]
Mode = Literal["auto", "direct", "leased"]
Anchor = Literal["auto", "first", "random_start", "random_step", "every_step"]
Order = Literal["selector", "epoch"]
Autoreset = Literal["disabled", "next_step", "same_step"]
Normalise = Literal["batch", "none", "table"]

ITEMS = ("step", "episode", "sequence", "explicit")
SELECTORS = (
    "default", "uniform", "fifo", "prioritized", "lifo", "max_heap", "min_heap", "top_k", "recency",
    "mixture",
)  # fmt: skip
MEMORIES = ("default", "posix", "memfd")
WANTS = ("no", "try", "required")
ISOLATIONS = ("none", "per_writer")
PADS = ("none", "left", "right")
FILLS = ("zero", "edge")
MODES = ("auto", "direct", "leased")
ANCHORS = ("auto", "first", "random_start", "random_step", "every_step")
ORDERS = ("selector", "epoch")
AUTORESETS = ("disabled", "next_step", "same_step")
NORMALISES = ("batch", "none", "table")
STATES = ("", "open", "closed", "dropped")

# gear_dtype, with numpy's names; 0 is none.
_DTYPES = (
    "", "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64",
)  # fmt: skip
_BYTES = 15
_PER_EPISODE = 1


def code(names: tuple[str, ...], value: str, what: str) -> int:
    """The number gear.h gives to one of `names`."""
    try:
        return names.index(value)
    except ValueError:
        known = ", ".join(f'"{name}"' for name in names)
        raise error_of(_EINVAL, f"{what} is {value!r}; it is one of {known}") from None


def _dtype_code(dtype: Any) -> tuple[int, int]:
    """(gear_dtype, element_bytes) of "bfloat16" or of anything that numpy.dtype takes."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return _DTYPES.index("bfloat16"), 0
    try:
        parsed = np.dtype(dtype)
    except TypeError as error:
        raise error_of(_EINVAL, f"{dtype!r} is no dtype: {error}") from None
    if parsed.kind in "VS" and parsed.name != "bfloat16" and parsed.fields is None:
        return _BYTES, parsed.itemsize
    if parsed.name not in _DTYPES or not parsed.isnative:
        known = ", ".join(_DTYPES[1:])
        raise error_of(_EINVAL, f"dtype {parsed!r} is none of {known} or V<bytes>, native order")
    return _DTYPES.index(parsed.name), 0


@dataclass(frozen=True)
class Column:
    """One column: dtype, and the shape of one step's (or episode's) cell.

    dtype: anything numpy.dtype takes, "bfloat16", or "V16" for 16 opaque bytes an element.
    shape: up to 8 extents, each at least 1; () for one number a step.
    """

    dtype: Any
    shape: tuple[int, ...] = ()
    per_episode: bool = False

    def packed(self, name: str) -> tuple[str, int, int, list[int], int]:
        dtype, element_bytes = _dtype_code(self.dtype)
        shape = [operator.index(extent) for extent in self.shape]
        return name, dtype, element_bytes, shape, _PER_EPISODE if self.per_episode else 0

    @classmethod
    def unpacked(cls, dtype: int, element_bytes: int, shape: list[int], flags: int) -> Column:
        text = f"V{element_bytes}" if dtype == _BYTES else _DTYPES[dtype]
        return cls(text, tuple(shape), bool(flags & _PER_EPISODE))


ColumnLike: TypeAlias = Column | tuple[Any, Iterable[int]] | str | type | np.dtype[Any]


def pack_columns(
    columns: Mapping[str, ColumnLike],
) -> list[tuple[str, int, int, list[int], int]]:
    """Columns as the extension wants them: a Column, (dtype, shape), or a dtype alone."""
    packed = []
    for name, column in columns.items():
        if isinstance(column, tuple):
            column = Column(column[0], tuple(column[1]))
        elif not isinstance(column, Column):
            column = Column(column)
        packed.append(column.packed(name))
    return packed


@dataclass(frozen=True)
class Limiter:
    """A rate limiter. n draws are admitted when

        size >= min_size and inserts * samples_per_insert - samples - n >= min_diff

    and n insertions when

        size + n <= min_size or (inserts + n) * samples_per_insert - samples <= max_diff.

    Cassirer et al., Reverb: A Framework for Experience Replay, 2021, section 3.3.
    """

    samples_per_insert: float
    min_size: int
    min_diff: float
    max_diff: float

    @classmethod
    def at_least(cls, min_size: int) -> Limiter:
        """Draws wait for `min_size` items; insertions never wait. Allows direct sampling."""
        return cls(*_gear.limiter_min_size(min_size))

    @classmethod
    def ratio(cls, samples_per_insert: float, min_size: int, error_buffer: float) -> Limiter:
        """`samples_per_insert` draws an insertion, within an error of `error_buffer` draws."""
        return cls(*_gear.limiter_ratio(samples_per_insert, min_size, error_buffer))

    def packed(self) -> tuple[float, int, float, float]:
        return self.samples_per_insert, self.min_size, self.min_diff, self.max_diff


@dataclass(frozen=True)
class Window:
    """What a batch receives of one column: steps t + offset .. t + offset + length - 1 around the
    drawn step t, cut at the ends of the episode.

    name:   in the batch; default the column's. Unique in the sampler.
    length: in steps; 0 is the item's own steps. A length of 1 gives no length axis.
    pad:    "none": steps that exist keep their places; "left", "right": padding on that side.
    fill:   of the padding: "zero", or "edge", the nearest step that exists.
    """

    column: str
    offset: int = 0
    length: int = 1
    name: str | None = None
    pad: Pad = "none"
    fill: Fill = "zero"

    def packed(self) -> tuple[str, str, int, int, int, int]:
        pad = code(PADS, self.pad, "pad")
        fill = code(FILLS, self.fill, "fill")
        return self.column, self.name or "", self.offset, self.length, pad, fill
