"""What Linux tells about processes and about the machine: the CPU they have spent, and the memory they hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    # Linux keeps fifteen characters of it.
    name: str
    cpu_s: float
    # Of its children that have ended.
    ended_cpu_s: float


def family(first: int) -> list[Process]:
    """A process and its descendants, in the order in which they were started."""
    everyone = {process.pid: process for process in map(_read, _PROC.glob("[0-9]*")) if process is not None}

    def belongs(pid: int) -> bool:
        while pid != first and pid in everyone:
            pid = everyone[pid].parent
        return pid == first

    return sorted((process for pid, process in everyone.items() if belongs(pid)), key=lambda process: process.pid)


def _read(folder: Path) -> Process | None:
    """None where it has ended meanwhile."""
    try:
        begun, _, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    user, system, ended_user, ended_system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15])
    name = begun.partition("(")[2]
    return Process(int(folder.name), int(fields[1]), name, user + system, ended_user + ended_system)


def reads(pid: int) -> int:
    """How often a process has called `read`, from a socket or a file."""
    return _numbers(_PROC / str(pid) / "io")["syscr"]


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident; and proportional, where a page that several processes share counts as a part for each."""
    found = _numbers(_PROC / str(pid) / "smaps_rollup")
    return found["Rss"] * 1024 / 1e6, found["Pss"] * 1024 / 1e6


def _numbers(path: Path) -> dict[str, int]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: int(words[0]) for name, _, rest in lines if (words := rest.split()) and words[0].isdigit()}


def machine_ticks() -> tuple[int, int]:
    """Of all cores since the machine was started: those without work, and all. Waiting for a disk is not work."""
    ticks = [int(word) for word in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
