"""What is left of a run: a table on the terminal, results.json and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.progress import WINDOW_EPISODES, History


def print_table(rows: list[tuple[str, str]]) -> None:
    """Two columns, aligned."""
    width = max(len(name) for name, _ in rows)
    print()
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    print()


def write_results(directory: Path, summary: dict[str, Any], history: History) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "results.json"
    path.write_text(json.dumps({**summary, **history.as_json()}, indent=1) + "\n")
    return path


def write_plot(directory: Path, name: str, goal: float | None, history: History) -> Path | None:
    """Returns over time above, throughput below. None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 7))
    above.plot(
        [seconds for seconds, _ in history.episodes],
        [episode.total for _, episode in history.episodes],
        ".", markersize=3, alpha=0.5, label=f"episode of actor {history.judged_actor}",
    )  # fmt: skip
    judged = [point for point in history.points if point.mean_return is not None]
    above.plot(
        [point.seconds for point in judged],
        [point.mean_return for point in judged],
        label=f"mean of the last {WINDOW_EPISODES}",
    )
    if goal is not None:
        above.axhline(goal, color="grey", linestyle=":", label="goal")
    above.set_ylabel("return")
    above.legend(loc="lower right")
    above.set_title(name)

    seconds = [point.seconds for point in history.points]
    below.plot(seconds, [point.steps_per_s for point in history.points], label="steps in")
    below.plot(seconds, [point.samples_per_s for point in history.points], label="samples out")
    below.set_yscale("symlog", linthresh=10)
    below.set_xlabel("seconds")
    below.set_ylabel("per second")
    below.legend(loc="lower right")

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.png"
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path
