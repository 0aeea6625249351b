"""Control groups with little memory, for programs that are to live with it. Needs root."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FIRST = Path("/sys/fs/cgroup/memory")
_SECOND = Path("/sys/fs/cgroup")


class CannotBeMade(Exception):
    """Here no group can be made."""


@contextmanager
def memory_group(mib: int, name: str) -> Iterator[tuple[str, ...]]:
    """What a command is prefixed with to run in a group of so much memory, without swap."""
    first = (_FIRST / "memory.limit_in_bytes").exists()
    folder = (_FIRST if first else _SECOND) / f"{name}-{os.getpid()}"
    try:
        folder.mkdir()
        if first:
            (folder / "memory.limit_in_bytes").write_text(str(mib << 20))
            with suppress(OSError):
                (folder / "memory.swappiness").write_text("0")
        else:
            (folder / "memory.max").write_text(str(mib << 20))
            with suppress(OSError):
                (folder / "memory.swap.max").write_text("0")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        raise CannotBeMade(str(error)) from error
    try:
        yield "sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"
    finally:
        for _ in range(200):
            # Those who were killed take a moment to leave.
            with suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.05)
