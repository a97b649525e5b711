"""The run's three GEAR tables: steps, weights and finished episodes."""

from __future__ import annotations

from dataclasses import dataclass

import gear
import numpy as np
from numpy.typing import NDArray

from dqn.settings import Settings


@dataclass
class StepBatch:
    """One batch as the learner wants it; arrays are views of the GEAR batch they came from.

    observation [rows, size] f32; action [rows] i64; reward [rows, n] f32; terminated [rows, n]
    bool; next_observation [rows, n, size] f32 and next_mask [rows, n] bool: entry k is the
    observation after step t + k, false where none is stored; keys, priorities, probabilities
    [rows].
    """

    observation: NDArray[np.float32]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    next_observation: NDArray[np.float32]
    next_mask: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    priorities: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    @classmethod
    def of(cls, batch: gear.Batch) -> StepBatch:
        """Names the windows of `step_windows`; valid until `batch` is released."""
        return cls(
            observation=batch["observation"],
            action=batch["action"],
            reward=batch["reward"],
            terminated=batch["terminated"],
            next_observation=batch["next_observation"],
            next_mask=batch.mask("next_observation"),
            keys=batch.keys,
            priorities=batch.priorities,
            probabilities=batch.probabilities,
        )
