"""The learner's place in the run of frames: draws batches of stacks, checks them, counts them."""

from __future__ import annotations

import gear
import numpy as np
from harness import children, newest

from frames import replay

PUBLISH_BATCHES = 20


def check(batch: gear.Batch) -> int:
    """Rows whose stack and next stack overlap as they must; both show the same stored frames.

    Where the step after the drawn one is not stored yet, the next stack repeats the newest frame,
    and the row still passes.
    """
    stack, following = batch["stack"], batch["next_stack"]
    same = (stack[:, 1:] == following[:, :-1]).reshape(len(batch), -1).all(axis=1)
    if not same.all():
        row = int(np.flatnonzero(~same)[0])
        raise AssertionError(f"row {row}, key {batch.keys[row]}: stack and next stack differ")
    return len(batch)


def main() -> None:
    given = children.arguments()
    children.exit_on_sigterm()
    with gear.connect(given["endpoint"], name="reader") as client:
        frames = client.open_table(replay.frames_name(given["prefix"]))
        progress = newest.Publisher(client, replay.progress_name(given["prefix"]))
        sampler = frames.sampler(
            batch=replay.BATCH_ROWS, windows=replay.stack_windows(), seed=given["seed"] + 1
        )
        checked = 0
        while True:
            for _ in range(PUBLISH_BATCHES):
                with sampler.sample(timeout=60.0) as batch:
                    checked += check(batch)
            stats = sampler.stats()
            progress.put(
                batches=np.int64(stats.batches),
                bytes=np.int64(stats.bytes),
                checked=np.int64(checked),
            )


if __name__ == "__main__":
    main()
