"""The work: what is stored, what a learner receives. Standard library only; runner and drivers share it."""

from __future__ import annotations

from dataclasses import dataclass

FRAME = (84, 84)
STACK = 5  # four frames and the next one: the state and the next state share three
STEPS = 20  # of a window
FEATURES = 17  # of a window's observation; its action has 6
ACTIONS = 6
ALPHA = 0.6
BETA = 0.4
SAMPLE_EVERY_S = 0.02  # the learner's pace while writers are measured


@dataclass(frozen=True)
class Work:
    """One table and what is done with it.

    data: "transition", "payload", "frame" or "window"; see data.py for their columns.
    item_bytes: payload a learner receives for one item. step_bytes: payload of one stored step.
    steps: stored at all times. batch: items a sample call. episode: steps of one.
    chunk: steps a writer hands over in one call, where the system has such a call.
    writers: the process counts to measure writing with; empty: sampling is measured.
    """

    name: str
    data: str
    item_bytes: int
    step_bytes: int
    steps: int
    batch: int
    episode: int
    prioritized: bool = False
    chunk: int = 32
    writers: tuple[int, ...] = ()

    @property
    def payload_floats(self) -> int:
        return self.item_bytes // 4

    def cells(self) -> list[tuple[str, int]]:
        """(row's name, writers); 0 writers is the sampling loop."""
        if not self.writers:
            return [(self.name, 0)]
        return [(f"{self.name}, {n} writer{'s' if n > 1 else ''}", n) for n in self.writers]


def _payload(label: str, size: int, steps: int, batch: int, chunk: int) -> Work:
    return Work(f"write {label}", "payload", size, size, steps, batch, 1000, False, chunk, (1, 2, 4))


_TRANSITION = {"data": "transition", "item_bytes": 45, "step_bytes": 29, "batch": 256, "episode": 200}
_SMALL = {"data": "payload", "item_bytes": 400, "step_bytes": 400, "batch": 256, "episode": 1000}
_FRAME_BYTES = FRAME[0] * FRAME[1]
_WINDOW_BYTES = 4 * (FEATURES + ACTIONS + 1)

WORKS = (
    Work("transitions, uniform", steps=50_000, **_TRANSITION),
    Work("transitions, prioritized", steps=50_000, prioritized=True, **_TRANSITION),
    Work("400 B, uniform", steps=50_000, **_SMALL),
    Work("400 B, prioritized", steps=50_000, prioritized=True, **_SMALL),
    Work("84x84 frames, stacks", "frame", STACK * _FRAME_BYTES + 13, _FRAME_BYTES + 13, 20_000, 32, 500),
    Work("20-step windows", "window", STEPS * _WINDOW_BYTES, _WINDOW_BYTES, 50_000, 256, 1000),
    _payload("400 B", 400, 50_000, 256, 32),
    _payload("4 kB", 4_000, 10_000, 256, 32),
    _payload("40 kB", 40_000, 2_000, 64, 4),
    _payload("400 kB", 400_000, 400, 8, 1),
)


def work_named(name: str) -> Work:
    return next(work for work in WORKS if work.name == name)
