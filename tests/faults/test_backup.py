"""A backup under load, one that is killed at any moment, and one whose device fills up."""

from __future__ import annotations

import signal
import subprocess
import sys
from base64 import b64decode
from contextlib import closing
from pathlib import Path

import pytest

from penstock.model import Draft, Settings
from penstock.stores import open_store
from penstock.stores.verification.verification import verify
from tests.faults.crowd import peek_all
from tests.faults.load import Load, create_queue
from tests.talk import Talk
from tests.waiting import wait_until

BACKUP = [sys.executable, "-m", "penstock", "backup"]


def test_what_was_answered_before_it_began_is_in_the_copy_or_finished(tmp_path: Path, serve) -> None:
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=1)
        before = [{"body": f"before {number}"} for number in range(2_000)]
        assert talk("POST", "/v1/queues/q/messages", {"messages": before}).status == 201
    load = Load()
    threads = load.run(server.url, senders=4, receivers=2)
    store = f"sqlite:///{tmp_path}/data/penstock.db"
    for run in range(5):
        copy = tmp_path / f"copy-{run}.db"
        sent_before, deleted_before = set(load.sent), set(load.deleted)
        done = subprocess.run([*BACKUP, store, str(copy)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sent_after, finished = set(load.sent), load.deleted | load.perhaps_deleted
        with closing(open_store(f"sqlite:///{copy}")) as opened, opened.unit(write=False) as unit:
            bodies = set(peek_all(unit, "q"))
            assert unit.ledger.tally("q").arrived == len(bodies) + unit.ledger.tally("q").departed
        assert verify(f"sqlite:///{copy}", print, bodies=True).findings == []
        assert sent_before - finished - bodies == set()
        assert deleted_before & bodies == set()
        # What was answered after it had ended cannot be in it; what is in it was sent by then, or was on its way.
        assert len({body for body in bodies if body.startswith(b"message ")} - sent_after) <= 4
    load.ended.set()
    for thread in threads:
        thread.join()
    assert load.other_answers == []
    # A server on the copy hands out all of it.
    server.terminate()
    restored = serve("--store", f"sqlite:///{copy}")
    handed_out: set[bytes] = set()
    with restored.talk() as talk:
        wait_until(lambda: bodies <= handed_out or handed_out.update(claim(talk)))


def claim(talk: Talk) -> list[bytes]:
    """Many at once: one by one, with a sync for each, would take a slow disk minutes."""
    reply = talk("POST", "/v1/queues/q/claim", {"limit": 1_000, "hold_ms": 600_000, "wait_ms": 1_000})
    messages = reply.json["messages"]
    return [b64decode(one["body_base64"]) if "body_base64" in one else one["body"].encode() for one in messages]


@pytest.mark.parametrize("call", ["openat", "pwrite64", "fdatasync", "fsync", "rename"])
def test_killed_at_any_moment_it_leaves_nothing_but_a_partial_file(call: str, tmp_path: Path, strace: str) -> None:
    store = f"sqlite:///{tmp_path}/live.db"
    with closing(open_store(store)) as opened, opened.unit() as unit:
        unit.create_queue("q", Settings(), 1)
        unit.send("q", [Draft(bytes(100_000))] * 300, 1)
    copy = tmp_path / "copy.db"
    copy.write_bytes(b"the former")
    killed = 0
    for when in (1, 2, 3, 50, 2_000):
        inject = f"inject={call}:signal=KILL:when={when}"
        traced = [strace, "-qq", "-o", "/dev/null", "-P", str(copy), "-P", f"{copy}.partial", "-P", str(tmp_path)]
        command = [*traced, "-e", f"trace={call}", "-e", inject, *BACKUP, store, str(copy), "--force"]
        ended = subprocess.run(command, capture_output=True, text=True)
        killed += ended.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        left = {path.name for path in tmp_path.iterdir() if path.name.startswith("copy")}
        assert left <= {"copy.db", "copy.db.partial"}
        if copy.read_bytes()[:10] != b"the former":
            assert count(copy) == 300
    again = subprocess.run([*BACKUP, store, str(copy), "--force"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert count(copy) == 300
    assert not Path(f"{copy}.partial").exists()
    assert killed


def count(file: Path) -> int:
    with closing(open_store(f"sqlite:///{file}")) as opened, opened.unit(write=False) as unit:
        return unit.count("q", 1, 10_000).total


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path, small_disk: Path, strace: str) -> None:
    store = f"sqlite:///{tmp_path}/live.db"
    with closing(open_store(store)) as opened, opened.unit() as unit:
        unit.create_queue("q", Settings(), 1)
        unit.send("q", [Draft(bytes(100_000))] * 100, 1)
    copy = small_disk / "copy.db"
    refused = subprocess.run([*BACKUP, store, str(copy)], capture_output=True, text=True)
    assert refused.returncode == 4
    assert refused.stderr.startswith(f"penstock: there is no room for the copy in {small_disk}: it takes ")
    assert list(small_disk.iterdir()) == []
    # It may fill up later, too.
    copy = tmp_path / "copy.db"
    full = [strace, "-qq", "-o", "/dev/null", "-P", f"{copy}.partial", "-e", "trace=pwrite64"]
    inject = ["-e", "inject=pwrite64:error=ENOSPC:when=700+"]
    ended = subprocess.run([*full, *inject, *BACKUP, store, str(copy)], capture_output=True, text=True)
    assert ended.returncode == 4
    assert ended.stderr.endswith(f"penstock: the device of {tmp_path} is full: no copy was made\n")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("copy")]
