"""A device that is full, and one whose syncs fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.load import create_queue, drain
from tests.servers import ServerProcess

BODY = b"x" * 20_000


def fill(talk) -> int:
    """Send until the server says that it cannot; the number of messages it took."""
    taken = 0
    while (reply := talk("POST", "/messages/q", BODY)).status == 201:
        taken += 1
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) > 0
    assert reply.json["error"]
    return taken


def test_a_full_disk_stops_sends_but_not_receives_and_deletes(small_disk: Path, serve) -> None:
    server = serve("--store", f"sqlite:///{small_disk}/p.db")
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=60)
        for _ in range(3):
            taken = fill(talk)
            assert taken > 20
            assert talk("GET", "/health").body == b"green"
            left = drain(talk)
            assert left == [BODY] * taken
            # There is room again as soon as the messages are gone and the log is folded into the file.


def test_a_disk_filled_by_others_loses_nothing_and_sends_resume(small_disk: Path, serve) -> None:
    server = serve("--store", f"sqlite:///{small_disk}/p.db")
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=60)
        for number in range(20):
            assert talk("POST", "/messages/q", b"%d" % number).status == 201
        hog = small_disk / "hog"
        subprocess.run(["dd", "if=/dev/zero", f"of={hog}", "bs=4k"], capture_output=True)
        assert talk("POST", "/messages/q", BODY).status == 503
        assert talk("GET", "/queues/q").json["status"]["messages"] == 20
        hog.unlink()
        while talk("POST", "/messages/q", b"20").status != 201:
            pass
        assert drain(talk) == [b"%d" % number for number in range(21)]


@pytest.mark.parametrize(("call", "when"), [("fdatasync", "6+3"), ("pwrite64", "40+13")])
def test_a_failed_sync_is_never_answered_2xx(tmp_path: Path, serve, strace: str, call: str, when: str) -> None:
    """Every so many calls one fails: sends answer 201 or 503, and every 201 is there after a restart."""
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=60)
    server.terminate()
    prefix = [
        strace,
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error=EIO:when={when}",
    ]
    server = serve(prefix=prefix)
    sent, refused = [], 0
    with server.talk() as talk:
        for number in range(40):
            body = b"%d" % number
            reply = talk("POST", "/messages/q", body)
            assert reply.status in (201, 503)
            if reply.status == 201:
                sent.append(body)
            else:
                assert reply.headers["Retry-After"]
                refused += 1
    assert refused
    kill_traced(server)
    server = serve()
    with server.talk() as talk:
        left = drain(talk)
    assert [body for body in left if body in sent] == sent


def kill_traced(server: ServerProcess) -> None:
    """strace passes no signal on: end the server itself, whose end ends strace."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    for child in children:
        subprocess.run(["kill", "-9", child], check=True)
    server.wait()
