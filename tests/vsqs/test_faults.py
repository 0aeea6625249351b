"""`kill -9`, EIO and ENOSPC at every call of a scripted run that matters; then recovery, and the books are checked."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import penstock.vsqs
from penstock.vsqs import Queue
from tests.lacking import lacking
from tests.vsqs.conftest import drain, files
from tests.vsqs.scripted import body

SOURCE = Path(penstock.vsqs.__file__).parents[2]
CALLS = ["fsync", "renameat2", "unlinkat", "openat", "write", "linkat"]
DAY_NS = 86_400 * 10**9


def run(strace: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The scripted run under a tracer. Without site packages: it starts in a tenth of the time."""
    script = Path(__file__).with_name("scripted.py")
    program = [sys.executable, "-B", "-S", str(script), str(folder / "queue"), str(folder / "books")]
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [strace, "-f", "-qq", *options, *program], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
    )


def ordinals(strace: str, folder: Path, call: str) -> list[int]:
    """Which of all calls of this kind, counted from 1, touch the queue and change something."""
    log = folder / "log"
    found = run(strace, folder / "plain", "-y", "-e", f"trace={call}", "-o", str(log))
    if found.returncode:
        lacking("no process can be traced", found.stderr.strip())
    of_queue = re.compile(r"/plain(/queue[/>]|>\))")
    return [
        number
        for number, line in enumerate(log.read_text().splitlines(), 1)
        if of_queue.search(line) and (call != "openat" or "O_CREAT" in line)
    ]


def read_books(path: Path) -> dict[tuple[str, str], set[str]]:
    books: dict[tuple[str, str], set[str]] = {}
    for line in path.read_text().splitlines():
        outcome, verb, *name = line.split()
        books.setdefault((outcome, verb), set()).update(name)
    return books


def check(folder: Path, killed: bool) -> None:
    """A day later, when every claim has run out and every unfinished file is a leftover."""
    books = read_books(folder / "books") if (folder / "books").exists() else {}
    tried, published = books.get(("try", "publish"), set()), books.get(("done", "publish"), set())
    tried_delete, deleted = books.get(("try", "delete"), set()), books.get(("done", "delete"), set())
    with Queue(folder / "queue", clock=lambda: time.time_ns() + DAY_NS) as queue:
        left = drain(queue)
    names = [chr(found[0]) for found in left]
    assert all(found == body(name) for found, name in zip(left, names, strict=True)), "a payload is not whole"
    assert names == sorted(names), "order is lost"
    assert max(Counter(names).values(), default=1) == 1, "a message is there twice"
    assert published - tried_delete <= set(names), "an acknowledged message is lost"
    assert not deleted & set(names), "a deleted message came back"
    assert set(names) <= tried
    if not killed:
        assert not set(names) & books.get(("failed", "publish"), set()), "what failed is there all the same"
        assert "d" in published or "d" in books.get(("failed", "publish"), set()), "the run did not go on"
    assert files(folder / "queue") == [], "something is left behind"


def test_the_run_itself(tmp_path: Path, strace: str) -> None:
    assert ordinals(strace, tmp_path, "fsync")
    books = read_books(tmp_path / "plain" / "books")
    assert books[("done", "publish")] == set("abcd")
    assert books[("done", "delete")] == set("ab")
    assert not any(outcome == "failed" for outcome, _ in books)
    check(tmp_path / "plain", killed=False)


@pytest.mark.parametrize("fault", ["signal=KILL", "error=EIO", "error=ENOSPC"])
@pytest.mark.parametrize(
    ("call", "least"), [("fsync", 10), ("renameat2", 7), ("unlinkat", 2), ("openat", 4), ("write", 4)]
)
def test_a_fault_at_every_call(tmp_path: Path, strace: str, call: str, least: int, fault: str) -> None:
    numbers = ordinals(strace, tmp_path, call)
    assert len(numbers) >= least
    for number in numbers:
        folder = tmp_path / f"{number}"
        options = ["-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={number}", "-o", str(folder) + ".log"]
        ended = run(strace, folder, *options)
        killed = fault == "signal=KILL"
        # A queue whose directory could not be opened or made durable is not opened at all.
        assert killed == (ended.returncode in (-9, 137)) or "in open_directory" in ended.stderr, ended.stderr
        if (folder / "queue").exists():
            check(folder, killed or "in open_directory" in ended.stderr)
