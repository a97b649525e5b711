"""CPU time and memory of a process and all that descend from it, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def members(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(int(entry))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """User and system time so far, of those alive and of the children they have waited for."""
    ticks = 0
    for pid in members(root):
        fields = _stat(pid)
        if fields:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks * _TICK_S


def resident_bytes(root: int) -> int:
    """Proportional set size of all; shared memory counts by what is allocated where that is more."""
    pids = members(root)
    private = shared = 0
    for pid in pids:
        for line in _lines(pid, "smaps_rollup"):
            name, _, rest = line.partition(":")
            if name in ("Pss_Anon", "Pss_File"):
                private += int(rest.split()[0]) * 1024
            elif name == "Pss_Shmem":
                shared += int(rest.split()[0]) * 1024
    return private + max(shared, _allocated(pids))


def _allocated(pids: list[int]) -> int:
    """Bytes allocated to the files in /dev/shm that the processes map, touched or not."""
    blocks = {}
    for pid in pids:
        for line in _lines(pid, "maps"):
            path = line[73:].strip()
            if path.startswith("/dev/shm/"):
                try:
                    blocks[path] = os.stat(path).st_blocks * 512
                except FileNotFoundError:
                    pass  # unlinked: only the proportional size tells
    return sum(blocks.values())


def _lines(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on: [0] state, [1] parent, [11] utime, [12] stime."""
    lines = _lines(pid, "stat")
    return lines[0].rpartition(")")[2].split() if lines else []
