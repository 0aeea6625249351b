"""How much memory the process may use: one that takes more than its control group has is killed, and not asked.

Bodies of requests are what clients can fill memory with, so their budget is fitted to the group.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.server.config import SETTINGS, Config

log = logging.getLogger(__name__)

_MIB: Final = 1 << 20
# What a process has beside bodies: the interpreter, the store's caches, some thousands of connections.
_BASE_MIB: Final = 80
# A body may be there four times at once: as it came, as it was read, on its way to another process, in the store.
_COPIES: Final = 4
_LEAST_MIB: Final = int(SETTINGS["max_bodies_mib"].least or 1)
_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def fit_memory(config: Config, groups: Path = _GROUPS, own: Path = _OWN) -> Config:
    """Lower `max_bodies_mib` to what the control group has room for; one that was chosen is left, with a warning."""
    limit = limit_mib(groups, own)
    if limit is None:
        return config
    processes = 1 if config.workers == 1 else config.workers + 1
    room = max(_LEAST_MIB, (limit - _BASE_MIB * processes) // _COPIES)
    if config.max_bodies_mib <= room:
        return config
    if config.max_bodies_mib != SETTINGS["max_bodies_mib"].default:
        log.warning(
            "max_bodies_mib is %d, but the control group has %d MiB of memory: with more than %d MiB of bodies the "
            "server may be killed",
            *(config.max_bodies_mib, limit, room),
        )
        return config
    log.warning(
        "the control group has %d MiB of memory: the bodies of requests may hold %d MiB, instead of %d",
        *(limit, room, config.max_bodies_mib),
    )
    return replace(config, max_bodies_mib=room)


def limit_mib(groups: Path = _GROUPS, own: Path = _OWN) -> int | None:
    """The least of what the group and those above it may have, by either version of control groups; None without."""
    found = []
    for path in _limit_files(groups, own):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        # The first version writes "no limit" as a number that is larger than any memory.
        if text.isdecimal() and int(text) < 1 << 60:
            found.append(int(text) // _MIB)
    return min(found, default=None)


def _limit_files(groups: Path, own: Path) -> list[Path]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            # In a container the group is the root of what can be seen; that has limits of its own.
            found += [folder / "memory.max" for folder in _upwards(groups, group)]
        elif "memory" in controllers.split(","):
            found += [folder / "memory.limit_in_bytes" for folder in _upwards(groups / "memory", group)]
    return found


def _upwards(root: Path, group: str) -> list[Path]:
    folder = root / group.lstrip("/")
    return [one for one in (folder, *folder.parents) if one == root or root in one.parents]
