"""Frames to a smaller size, by the mean over the area of each new pixel, in numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Resizer:
    """[height, width] uint8 to a square of `size`. Resizing is linear and separable, so it is two
    matrix products. Holds buffers: one thread."""

    def __init__(self, height: int, width: int, size: int) -> None:
        self._rows = _area_weights(height, size)
        self._columns = _area_weights(width, size).T.copy()
        self._frame = np.empty((height, width), np.float32)
        self._half = np.empty((size, width), np.float32)
        self._small = np.empty((size, size), np.float32)

    def into(self, frame: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Writes the resized frame to `out`, [size, size]."""
        self._frame[...] = frame
        np.matmul(self._rows, self._frame, out=self._half)
        np.matmul(self._half, self._columns, out=self._small)
        np.rint(self._small, out=self._small)
        np.copyto(out, self._small, casting="unsafe")


def _area_weights(source: int, target: int) -> NDArray[np.float32]:
    """[target, source]: the share of each source pixel in the span of each target pixel."""
    edges = np.arange(target + 1) * (source / target)
    pixels = np.arange(source)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    shares = np.maximum(overlap, 0.0)
    weights: NDArray[np.float32] = shares / shares.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)
