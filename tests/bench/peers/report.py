"""From repeats to rows, and rows as a table. Pure functions; tests/bench/peers_report.test.py."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

BEGIN = "<!-- bench-peers: begin -->"
END = "<!-- bench-peers: end -->"
OURS = "gear"

Row = dict[str, Any]


def percentile(values: Iterable[float], part: float) -> float:
    """The smallest value that at least `part` of the values do not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    rank = -int(-part * len(ordered) // 1)  # ceiling
    return ordered[max(rank, 1) - 1]


def moved_bytes(repeat: dict[str, Any], writers: int, step_bytes: int, item_bytes: int) -> int:
    """Payload written (with writers) and payload that sample calls brought."""
    written = repeat["items"] * step_bytes if writers else 0
    return written + repeat["sampled"] * item_bytes


def summarise(repeats: Sequence[dict[str, Any]], writers: int, step_bytes: int, item_bytes: int) -> Row:
    """One row of one system: medians of rates over the repeats, percentiles over all calls of all
    repeats, CPU time over all bytes of all repeats.

    A repeat has items, seconds, sampled, torn, latencies_us and cpu_s.
    """
    rate = statistics.median(repeat["items"] / repeat["seconds"] for repeat in repeats)
    latencies = [value for repeat in repeats for value in repeat["latencies_us"]]
    moved = sum(moved_bytes(repeat, writers, step_bytes, item_bytes) for repeat in repeats)
    return {
        "items_per_s": rate,
        "mb_per_s": rate * (step_bytes if writers else item_bytes) / 1e6,
        "p50_us": percentile(latencies, 0.50),
        "p99_us": percentile(latencies, 0.99),
        "cpu_s_per_gb": sum(repeat["cpu_s"] for repeat in repeats) / (moved / 1e9),
        "torn": sum(repeat["torn"] for repeat in repeats),
        "repeats": len(repeats),
    }


def by_name(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """{row's name: {system: row}}, both in order of first appearance."""
    grouped: dict[str, dict[str, Row]] = {}
    for row in rows:
        grouped.setdefault(row["row"], {})[row["system"]] = row
    return grouped


def winner(systems: dict[str, Row]) -> str:
    """Who has the most items/s; a tie goes to the first."""
    return max(systems, key=lambda name: systems[name]["items_per_s"])


def ratio(systems: dict[str, Row]) -> float | None:
    """Our items/s over the best peer's; None when either is missing."""
    peers = [row["items_per_s"] for name, row in systems.items() if name != OURS]
    if OURS not in systems or not peers:
        return None
    return systems[OURS]["items_per_s"] / max(peers)


def short(value: float) -> str:
    """Three digits and a unit: 1234567 -> 1.23M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return _three(value / size) + unit
    return _three(value)


def _three(value: float) -> str:
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"


_FIELDS = (
    ("items/s", "items_per_s"),
    ("MB/s", "mb_per_s"),
    ("p50 us", "p50_us"),
    ("p99 us", "p99_us"),
    ("CPU s/GB", "cpu_s_per_gb"),
    ("resident", "resident"),
)


def _cells(row: Row) -> list[str]:
    return ["-" if row.get(key) is None else short(row[key]) for _, key in _FIELDS]


def text_lines(name: str, systems: dict[str, Row]) -> list[str]:
    """One row for the terminal, the winner marked."""
    best = winner(systems)
    lines = []
    for index, (system, row) in enumerate(systems.items()):
        mark = "*" if system == best else " "
        torn = f"  torn {row['torn']}" if row.get("torn") else ""
        fields = "".join(f"{cell:>10}" for cell in _cells(row))
        lines.append(f"{name if index == 0 else '':26}{mark}{system:15}{fields}{torn}")
    return lines


def text_header() -> str:
    return f"{'row':26} {'system':15}" + "".join(f"{title:>10}" for title, _ in _FIELDS)


def markdown(results: dict[str, Any]) -> str:
    """The tables of docs/PERFORMANCE.md: who wins, then every figure."""
    grouped = by_name(results["rows"])
    systems = list(dict.fromkeys(row["system"] for row in results["rows"]))
    lines = [_settings(results), ""]
    lines += ["| items/s | " + " | ".join(systems) + " | gear / best peer |", "|---" * (len(systems) + 2) + "|"]
    for name, row in grouped.items():
        best = winner(row)
        cells = [_bold(short(row[s]["items_per_s"]), s == best) if s in row else "" for s in systems]
        against = ratio(row)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {'' if against is None else f'{against:.2f}'} |")
    lines += ["", "| row | system | " + " | ".join(title for title, _ in _FIELDS) + " |"]
    lines.append("|---" * (len(_FIELDS) + 2) + "|")
    for name, row in grouped.items():
        for index, system in enumerate(row):
            lines.append(f"| {name if index == 0 else ''} | {system} | " + " | ".join(_cells(row[system])) + " |")
    torn = [f"{row['row']}: {row['system']} {row['torn']}" for row in results["rows"] if row.get("torn")]
    lines += ["", "Torn payloads seen by the learner: " + ("; ".join(torn) if torn else "none") + "."]
    lines += [f"- {note}" for note in results.get("notes", [])]
    return "\n".join(lines) + "\n"


def _bold(text: str, yes: bool) -> str:
    return f"**{text}**" if yes else text


def _settings(results: dict[str, Any]) -> str:
    versions = "; ".join(
        f"{system}: " + ", ".join(f"{name} {number}" for name, number in known.items())
        for system, known in results["versions"].items()
    )
    machine, settings = results["machine"], results["settings"]
    return (
        f"{machine['cores']} cores, {machine['processor']}, Linux {machine['kernel']}; load average "
        f"{machine['load']:.1f} at the start. {settings['repeats']} repeats of {settings['seconds']:g} s a cell.\n"
        f"Versions: {versions}."
    )


def spliced(document: str, table: str) -> str:
    """The document with everything between the two markers replaced."""
    begin, end = document.find(BEGIN), document.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"the document lacks {BEGIN} and, after it, {END}")
    return document[: begin + len(BEGIN)] + "\n" + table + document[end:]
