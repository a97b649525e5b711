#!/usr/bin/env python3
"""GEAR at work: actor processes and a learner share trajectories through geard.

With CartPole-v1 (the default) a DQN learns from prioritized replay: four actor processes step
vectors of environments and append to one table; a learner process draws n-step windows from it,
updates priorities, and publishes its weights, through GEAR too. The run ends when the mean return
of the last 20 episodes of actor 0, which acts almost greedily (epsilon 0.001), reaches the goal.

With an Atari environment (--env ALE/Pong-v5) the same moves 84x84 frames, each stored once and
stacked by windows. The actors play at random and nothing is learned: the purpose is to move data.
That run ends after --seconds.

--seed fixes the initial weights, the environments and the draws. Actors and learner are processes
that run at their own pace, so two runs of one seed are alike, and not bit for bit the same.

Exit status: 0 the goal was reached (Atari: the time is over), 1 it was not, 2 a process or the
daemon failed, 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

import gear
from dqn.plan import LearningPlan
from frames.plan import FramesPlan
from harness import report
from harness.daemon import Daemon, DaemonError, find
from harness.progress import WINDOW_EPISODES, History
from harness.run import Limits, Outcome, Plan, StopSignals, run


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="CartPole-v1", help="CartPole-v1 or an ALE/ environment")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--actors", type=int, default=4, help="actor processes; default 4")
    parser.add_argument(
        "--lanes", type=int, help="environments an actor; default 4, and 2 for Atari"
    )
    parser.add_argument(
        "--goal", type=float, default=300.0,
        help=f"mean return of actor 0's last {WINDOW_EPISODES} episodes; default 300",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=5.0, help="time to reach it; default 5")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of an Atari run")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="default build/demo")
    parser.add_argument("--geard", help="daemon to start; default build/release/geard, else PATH")
    parser.add_argument("--endpoint", help="use the daemon that runs there, as unix:/path")
    options = parser.parse_args(arguments)

    if options.env != "CartPole-v1" and not options.env.startswith("ALE/"):
        parser.error(f"--env {options.env}: it is CartPole-v1 or begins with ALE/")
    if options.lanes is None:
        options.lanes = 4 if options.env == "CartPole-v1" else 2
    for name in ("actors", "lanes", "minutes", "seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be above 0")
    if options.seed < 0:
        parser.error("--seed must not be negative")
    if options.endpoint and options.geard:
        parser.error("--endpoint and --geard exclude each other")
    return options


def plan_of(options: argparse.Namespace) -> tuple[Plan, Limits]:
    given = options.env, options.actors, options.lanes, options.seed
    if options.env == "CartPole-v1":
        return LearningPlan(*given), Limits(60.0 * options.minutes, options.goal)
    return FramesPlan(*given), Limits(options.seconds, None)


def conclude(
    options: argparse.Namespace, plan: Plan, outcome: Outcome, history: History,
    server: gear.ServerInfo,
) -> None:  # fmt: skip
    """The final table, the results and the plot."""
    last = history.points[-1]
    seconds = max(last.seconds, 1e-9)
    moved = last.sample_bytes / 1e6
    mean = "fewer than 20 episodes" if last.mean_return is None else f"{last.mean_return:.1f}"
    name = f"{options.env.replace('/', '-')}-seed{options.seed}"
    summary = {
        "env": options.env,
        "seed": options.seed,
        "actors": options.actors,
        "lanes": options.lanes,
        "goal": options.goal if plan.learns else None,
        "outcome": outcome.kind,
        "seconds": last.seconds,
        "steps": last.steps,
        "samples": last.samples,
        "updates": last.updates,
        "episodes": history.episode_count,
        "mean_return": last.mean_return,
    }
    results = report.write_results(options.out, summary, history)
    plot = report.write_plot(options.out, name, summary["goal"], history)
    report.print_table(
        [
            ("environment", f"{options.env}, {options.actors} actors x {options.lanes} lanes"),
            ("time", f"{last.seconds:.1f} s"),
            ("steps in", f"{last.steps:,} ({last.steps / seconds:,.0f}/s)"),
            ("samples out", f"{last.samples:,} ({last.samples / seconds:,.0f}/s)"),
            ("bytes out", f"{moved:,.0f} MB ({moved / seconds:,.1f} MB/s)"),
            ("updates" if plan.learns else "batches", f"{last.updates:,}"),
            ("episodes", f"{history.episode_count:,} by all actors"),
            (f"mean return, actor 0, last {WINDOW_EPISODES}", mean),
            ("table fill", f"{100 * last.fill:.0f} %"),
            ("daemon", f"{server.records:,} records, {server.wakeups:,} wakeups"),
            ("results", str(results)),
            ("plot", str(plot) if plot else "none: matplotlib is not installed"),
        ]
    )


def exit_status(plan: Plan, outcome: Outcome, signals: StopSignals) -> int:
    if outcome.kind == "interrupted":
        return 128 + signals.caught
    if outcome.kind == "failed":
        return 2
    return 0 if outcome.kind == "goal" or not plan.learns else 1


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signals = StopSignals()
    plan, limits = plan_of(options)
    try:
        daemon = None if options.endpoint else Daemon(find(options.geard))
        with daemon or nullcontext():
            endpoint = daemon.endpoint if daemon else options.endpoint
            outcome, history, server = run(plan, daemon, endpoint, limits, signals)
    except (DaemonError, gear.Error) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    conclude(options, plan, outcome, history, server)
    status = exit_status(plan, outcome, signals)
    print(f"demo: {outcome.text}", file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
