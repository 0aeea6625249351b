"""A device that is full, one that fails, one that may only be read, and a file that goes away."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.load import create_queue, drain
from tests.servers import SERVE, ServerProcess

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
    server = serve(prefix=failing(strace, call, "EIO", when))
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


@pytest.mark.parametrize(("call", "error", "when"), [("fdatasync", "EIO", "4+"), ("pwrite64", "EROFS", "60+")])
def test_a_disk_that_takes_nothing_any_more_is_red_and_told_once(serve, strace, call, error, when) -> None:
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=60)
        for number in range(10):
            assert talk("POST", "/messages/q", b"%d" % number).status == 201
    server.terminate()
    server = serve(prefix=failing(strace, call, error, when))
    with server.talk() as talk:
        while talk("POST", "/messages/q", b"more").status == 201:
            pass
        for _ in range(30):
            assert talk("POST", "/messages/q", b"more").status == 503
            assert talk("GET", "/health").body == b"red"
    kill_traced(server)
    told = server.log.read_text()
    assert "damaged" not in told
    assert told.count("WARNING") + told.count("ERROR") <= 8, told
    assert told.count("again after a failure") == 1
    server = serve()
    with server.talk() as talk:
        assert talk("GET", "/health").body == b"green"
        assert drain(talk)[:10] == [b"%d" % number for number in range(10)]


def test_health_is_red_on_a_disk_that_became_read_only_while_nothing_was_written(serve, strace) -> None:
    serve().terminate()
    server = serve(prefix=failing(strace, "fdatasync", "EROFS", "1+"))
    with server.talk() as talk:
        assert talk("GET", "/health").body == b"red"
    kill_traced(server)


def test_a_store_that_may_only_be_read_is_refused(small_disk: Path, tmp_path: Path, serve) -> None:
    store = f"sqlite:///{small_disk}/p.db"
    serve("--store", store).terminate()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    command = [*SERVE, "--port", "0", "--store", store]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 4
    assert ended.stderr == f"penstock: {small_disk}/p.db may only be read: a store has to be written to\n"


@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_file_that_is_gone_takes_nothing_any_more(tmp_path: Path, serve, end: str) -> None:
    server = serve()
    path = tmp_path / "data" / "penstock.db"
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=60)
        assert talk("POST", "/messages/q", b"1").status == 201
        Path(f"{path}{end}").rename(tmp_path / "away")
        while talk("GET", "/health").body == b"green":
            pass
        reply = talk("POST", "/messages/q", b"lost")
        assert (reply.status, talk("GET", "/messages/q").status) == (503, 503)
        assert reply.headers["Retry-After"]
        (tmp_path / "away").rename(f"{path}{end}")
        assert talk("GET", "/health").body == b"green"
        assert talk("POST", "/messages/q", b"2").status == 201
        Path(f"{path}{end}").unlink()
        while talk("GET", "/health").body == b"green":
            pass
        assert talk("POST", "/messages/q", b"lost").status == 503
    assert server.terminate() == 0
    assert server.log.read_text().count("deleted or moved while the store was in use") <= 8
    server = serve()
    with server.talk() as talk:
        # Without its file a store begins empty; a log alone was folded into the file in time.
        assert talk("GET", "/queues/q").status == (200 if end else 404)
        if end:
            assert drain(talk) == [b"1", b"2"]


def failing(strace: str, call: str, error: str, when: str) -> list[str]:
    """A command to run a server under, some of whose system calls then fail."""
    inject = f"inject={call}:error={error}:when={when}"
    return [strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]


def kill_traced(server: ServerProcess) -> None:
    """strace passes no signal on: end the server itself, whose end ends strace."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    for child in children:
        subprocess.run(["kill", "-9", child], check=True)
    server.wait()
