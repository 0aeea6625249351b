"""A kill, an I/O error and a full disk at every sync, move, write and unlink of a scripted life."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.conftest import strace
from tests.mqcore.disk import check

__all__ = ["strace"]

TOP = Path(__file__).parents[2]
CALLS = {"fsync": "fsync", "rename": "renameat", "unlink": "unlinkat", "chmod": "fchmod"}
FAULTS = {"kill": "signal=KILL", "error": "error=EIO", "full": "error=ENOSPC"}


def run(strace: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    tracing = [strace, "-f", "-qq", "-o", str(folder / "trace"), *options]
    script = [sys.executable, "-B", "-m", "tests.mqcore.scripted", str(folder / "root"), str(folder / "book")]
    return subprocess.run([*tracing, *script], cwd=TOP, capture_output=True, text=True)


def checked(folder: Path) -> None:
    book = folder / "book"
    lines = [line.split() for line in book.read_text().splitlines()] if book.exists() else []
    sent = {words[1]: bytes.fromhex(words[2]) for words in lines if words[0] == "sent"}
    acking = {words[1] for words in lines if words[0] == "acking"}
    acked = {words[1] for words in lines if words[0] == "acked"}
    if (folder / "root" / "remove").exists():
        check(folder / "root", sent, acked, acking - acked)
    else:
        assert not sent


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CALLS)
def test_a_fault_at_every_call(strace: str, tmp_path: Path, name: str, fault: str) -> None:
    call = CALLS[name]
    plain = run(strace, tmp_path / "plain", "-e", f"trace={call}")
    assert plain.returncode == 0, plain.stderr
    times = len(re.findall(rf"\b{call}\(", (tmp_path / "plain" / "trace").read_text()))
    assert times > 2
    checked(tmp_path / "plain")

    def fail_at(when: int) -> None:
        folder = tmp_path / f"at-{when}"
        done = run(strace, folder, "-e", f"trace={call}", "-e", f"inject={call}:{FAULTS[fault]}:when={when}")
        # A folder that cannot be made durable at the start ends the program, and says so.
        assert done.returncode in ((137, -9) if fault == "kill" else (0, 1)), done.stderr
        assert done.returncode != 1 or "penstock.errors.Store" in done.stderr
        checked(folder)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fail_at, range(1, times + 1)))
