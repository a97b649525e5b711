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


def steps_name(prefix: str) -> str:
    return f"{prefix}/steps"


def create(client: gear.Client, prefix: str, settings: Settings, lanes: int) -> None:
    """Creates the table of steps. Each step is stored once: observation, the action taken on it,
    the reward of that, and whether it terminated the episode."""
    client.create_table(
        steps_name(prefix),
        {
            "observation": gear.Column("float32", (settings.observation_size,)),
            "action": gear.Column("int64"),
            "reward": gear.Column("float32"),
            "terminated": gear.Column("bool"),
        },
        capacity_items=settings.capacity_steps,
        sampler="prioritized",
        priority_alpha=settings.priority_alpha,
        limiter=gear.Limiter.at_least(settings.warmup_steps),
        lanes_max=lanes,
    )


def step_windows(n_step: int) -> list[gear.Window]:
    """What the learner gathers around a drawn step t: its observation and action, n rewards from t
    on, and the n observations that follow."""
    return [
        gear.Window("observation"),
        gear.Window("action"),
        gear.Window("reward", length=n_step),
        gear.Window("terminated", length=n_step),
        gear.Window("observation", offset=1, length=n_step, name="next_observation"),
    ]


def weights_name(prefix: str) -> str:
    return f"{prefix}/weights"


def weight_columns(parameter_count: int) -> dict[str, gear.Column]:
    """What the learner publishes: its parameters, and how far it is."""
    return {
        "parameters": gear.Column("float32", (parameter_count,)),
        "updates": gear.Column("int64"),
        "loss": gear.Column("float64"),
    }
