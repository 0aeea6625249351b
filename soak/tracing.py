"""strace on a process that is about to begin: it tells the calls that change a store, and makes one of them fail."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from soak.fault import Lacking
from soak.server import wait_until

# All by which a store is changed or made durable; of calls to open a file, those that may make one.
CALLS = (
    "fsync", "fdatasync", "syncfs", "sync_file_range",
    "write", "pwrite64", "writev", "pwritev", "fallocate",
    "rename", "renameat", "renameat2", "link", "linkat",
    "ftruncate", "truncate", "unlink", "unlinkat",
    "openat", "mknodat", "mknod", "mkdir", "mkdirat", "fchmod", "utimensat", "fsetxattr",
)  # fmt: skip

INJECTIONS = {"EIO": "error=EIO", "ENOSPC": "error=ENOSPC", "KILL": "signal=KILL"}

_ENTERED = re.compile(r"(\d+) +(\w+)\(")


@dataclass(frozen=True, order=True, slots=True)
class Point:
    """The call of a kind, counted from 1 in its thread, that goes wrong, and how."""

    call: str
    when: int
    how: str

    def __str__(self) -> str:
        return f"{self.how} at {self.call} {self.when}"


def traced(*options: str) -> Callable[[int], subprocess.Popen[bytes]]:
    """What attaches a tracer to a process. It ends with that."""
    strace = shutil.which("strace")
    if strace is None:
        raise Lacking("strace is not installed")

    def attach(pid: int) -> subprocess.Popen[bytes]:
        tracer = subprocess.Popen([strace, "-f", "-qq", *options, "-p", str(pid)], stderr=subprocess.PIPE)
        status = Path(f"/proc/{pid}/status")
        wait_until(
            lambda: f"TracerPid:\t{tracer.pid}\n" in status.read_text() or tracer.poll() is not None,
            "strace is attached",
        )
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            raise Lacking(f"no process can be traced ({tracer.stderr.read().decode().strip()})")
        return tracer

    return attach


@contextmanager
def tracing(*options: str) -> Iterator[Callable[[int], None]]:
    """For the `prepare` of a process that is forked: traced from its first step to its last."""
    attach = traced(*options)
    tracers: list[subprocess.Popen[bytes]] = []
    try:
        yield lambda pid: tracers.append(attach(pid))
    finally:
        for tracer in tracers:
            tracer.wait()
            if tracer.stderr is not None:
                tracer.stderr.close()


def counting(trace: Path) -> list[str]:
    return ["-y", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"]


def injecting(point: Point) -> list[str]:
    inject = f"inject={point.call}:{INJECTIONS[point.how]}:when={point.when}"
    return ["-o", "/dev/null", "-e", f"trace={point.call}", "-e", inject]


def points(trace: Path, folder: Path) -> list[Point]:
    """Every call of a traced life that touches what is in a folder, once with each fault."""
    counted: Counter[tuple[str, str]] = Counter()
    found: set[Point] = set()
    for line in trace.read_text(errors="replace").splitlines():
        entered = _ENTERED.match(line)
        if entered is None:
            continue
        thread, call = entered.groups()
        counted[thread, call] += 1
        if str(folder) in line and (call != "openat" or "O_CREAT" in line):
            found |= {Point(call, counted[thread, call], how) for how in INJECTIONS}
    return sorted(found)
