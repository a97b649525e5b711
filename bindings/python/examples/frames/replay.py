"""The run's tables of frames, and the windows that stack them."""

from __future__ import annotations

import gear

SIZE = 84
STACK = 4
BATCH_ROWS = 32


def frames_name(prefix: str) -> str:
    return f"{prefix}/frames"


def progress_name(prefix: str) -> str:
    return f"{prefix}/progress"


PROGRESS_COLUMNS = {"batches": "int64", "bytes": "int64", "checked": "int64"}


def create(client: gear.Client, prefix: str, capacity_steps: int, lanes: int) -> None:
    """Creates the table of frames: one 84x84 frame a step, stored once, whatever stacks show it."""
    client.create_table(
        frames_name(prefix),
        {
            "frame": gear.Column("uint8", (SIZE, SIZE)),
            "action": gear.Column("int64"),
            "reward": gear.Column("float32"),
            "terminated": gear.Column("bool"),
        },
        capacity_items=capacity_steps,
        limiter=gear.Limiter.at_least(10 * BATCH_ROWS),
        lanes_max=lanes,
    )


def stack_windows() -> list[gear.Window]:
    """The four frames up to the drawn step, and the four up to the one after it, each as
    [rows, 4, 84, 84]. At an episode's begin the first frame is repeated; after its last step comes
    the final frame."""
    return [
        gear.Window("frame", offset=1 - STACK, length=STACK, name="stack", fill="edge"),
        gear.Window("frame", offset=2 - STACK, length=STACK, name="next_stack", fill="edge"),
        gear.Window("action"),
        gear.Window("reward"),
        gear.Window("terminated"),
    ]
