"""Programs that a test starts as a user would, and kills without warning together with all that they have started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_POLL_S = 0.05


class Program:
    """In a session of its own, by which everything it has started is found: also what has changed its process group."""

    def __init__(self, folder: Path, name: str, *command: str, environ: Mapping[str, str] | None = None) -> None:
        self._out = folder / f"{name}.out"
        self._err = folder / f"{name}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, **(environ or {})},
            )  # fmt: skip

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait(self, timeout: float = 300) -> int:
        """How it ended."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.out}{self.err}") from None

    def finish(self, timeout: float = 300) -> str:
        """Its output, once it has ended well."""
        code = self.wait(timeout)
        assert code == 0, f"it ended with {code}:\n{self.out}{self.err}"
        return self.out

    def wait_for(self, pattern: str, timeout: float = 300) -> str:
        """Until the pattern is in what it says; returns the first group."""
        end = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.out + self.err)
            if found:
                return found[1] if found.groups() else found[0]
            said = f"{self.out}{self.err}"
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{said}"
            assert time.monotonic() < end, f"it never said {pattern}:\n{said}"
            threading.Event().wait(_POLL_S)

    def members(self) -> list[int]:
        return [pid for pid in _pids() if _stat(pid)[3:4] == [str(self.process.pid)]]

    def java(self) -> int:
        """Its first Java process: Spark's driver, of a program that is one."""
        return min(pid for pid in self.members() if _name(pid) == "java")

    def kill(self) -> None:
        """All of it at once, as when a machine is lost."""
        for _ in range(3):  # what was just being started is found the next time
            for pid in self.members():
                kill(pid)
        self.process.wait()


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def session_of(pid: int) -> int:
    return int(_stat(pid)[3])


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _stat(pid: int) -> list[str]:
    """State, parent, group, session, …: what follows the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
