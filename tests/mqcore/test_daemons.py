"""The three programs as real processes: alone, several of each, killed and started again."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mqcore.disk import tree
from tests.mqcore.programs import Program
from tests.talk import Talk
from tests.waiting import wait_until

ID = "00000000-0000-7000-8000-000000000001"
Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path, root: Path) -> Iterator[Start]:
    started: list[Program] = []
    numbers = itertools.count()

    def start(name: str, *flags: str, **options: float) -> Program:
        if name == "mq":
            flags = ("--port", "0", *flags)
        started.append(Program(name, root, *flags, log=tmp_path / f"{name}-{next(numbers)}.log", **options))
        return started[-1]

    yield start
    for program in started:
        program.kill()


def test_mq_alone_neither_redelivers_nor_destroys(start: Start, root: Path) -> None:
    mq = start("mq", "--mqcore-redelivery-s", "0.05")
    with mq.talk() as talk:
        talk("PUT", "/q")
        message_id = talk("POST", "/q/messages", b"x").headers["X-Message-Id"]
        assert talk("GET", "/q/messages").body == b"x"
        time.sleep(0.2)  # far past its redelivery; that no program cares cannot be seen otherwise
        assert talk("GET", "/q/messages").status == 204
        assert tree(root) == {f"delay/q:{message_id}"}
        talk("DELETE", f"/q/messages/{message_id}")
        time.sleep(1.2)  # a reaper, were there one, looks once a second
        assert tree(root) == {f"remove/q:{message_id}"}
    assert mq.terminate() == 0
    assert "1 messages were fetched; 0 times another was faster" in mq.log.read_text()


def test_the_mover_alone_delivers_what_is_left_and_redelivers_what_is_due(start: Start, root: Path) -> None:
    for folder in ("new", "queues/q", "delay"):
        (root / folder).mkdir(parents=True)
    left, due = ID, ID.replace("1", "2")
    (root / f"new/q:{left}").write_bytes(b"left")
    (root / f"delay/q:{due}").write_bytes(b"due")
    mover = start("mq-mover", "--grace", "0")
    wait_until(lambda: tree(root) == {f"queues/q/{left}", f"queues/q/{due}"})
    assert mover.terminate() == 0


def test_the_mover_wakes_when_something_arrives(start: Start, root: Path) -> None:
    """Without being told, this one would look again in an hour."""
    mq = start("mq", "--mqcore-redelivery-s", "0.1")
    start("mq-mover", poll_s=3_600)
    with mq.talk() as talk:
        talk("PUT", "/q")
        for _ in range(5):
            talk("POST", "/q/messages", b"x")
            replies = [talk("GET", "/q/messages")]
            assert replies[0].status == 200
            wait_until(lambda: replies.append(talk("GET", "/q/messages")) or replies[-1].status == 200)  # noqa: B023
            talk("DELETE", f"/q/messages/{replies[-1].headers['X-Message-Id']}")


def test_the_reaper_alone_destroys_what_is_in_remove(start: Start, root: Path) -> None:
    (root / "remove" / f"q:{ID}").parent.mkdir(parents=True)
    (root / "remove" / f"q:{ID}").write_bytes(b"x")
    grave = root / "remove" / f"q:{ID.replace('1', '2')}"
    grave.mkdir()
    for number in range(3):
        (grave / ID.replace("1", str(number))).write_bytes(b"x")
    reaper = start("mq-reaper")
    wait_until(lambda: not any((root / "remove").iterdir()))
    (root / "remove" / f"q:{ID}").write_bytes(b"x")
    wait_until(lambda: not any((root / "remove").iterdir()))
    assert reaper.terminate() == 0


class Load:
    """Senders and receivers on servers that may die at any moment, and the books of what was answered."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.sent: set[bytes] = set()
        self.asked: set[bytes] = set()  # to be deleted, perhaps without an answer
        self.deleted: set[bytes] = set()
        self.other_answers: list[int] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._again_and_again, args=(work, number))
            for work in (self._send, self._receive)
            for number in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _again_and_again(self, work: Callable[[Talk, bytes], None], number: int) -> None:
        for count in itertools.count():
            if self._stop.is_set():
                return
            try:
                with Talk(self.urls[number % 2], timeout=5) as talk:
                    work(talk, b"%d %d" % (number, count))
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)

    def _send(self, talk: Talk, body: bytes) -> None:
        status = talk("POST", "/q/messages", body).status
        if status == 201:
            self.sent.add(body)
        else:
            self.other_answers.append(status)

    def _receive(self, talk: Talk, _body: bytes) -> None:
        reply = talk("GET", "/q/messages")
        if reply.status == 200:
            self.asked.add(reply.body)
            assert talk("DELETE", f"/q/messages/{reply.headers['X-Message-Id']}").status == 202
            self.deleted.add(reply.body)


def test_several_of_each_that_are_killed_and_started_again_lose_nothing(start: Start, root: Path) -> None:
    flags = ("--peers", "1", "--mqcore-redelivery-s", "0.3")
    servers = [start("mq", *flags) for _ in range(2)]
    helpers = [start("mq-mover", "--grace", "0"), start("mq-reaper"), start("mq-mover"), start("mq-reaper")]
    with servers[0].talk() as talk:
        talk("PUT", "/q")
    load = Load([server.url for server in servers])
    for turn in range(4):
        count = len(load.deleted)
        wait_until(lambda count=count: len(load.deleted) > count + 10)
        servers[turn % 2].kill()
        helpers[turn].kill()
        servers[turn % 2] = start("mq", *flags)
        load.urls[turn % 2] = servers[turn % 2].url
    load.stop()
    for name in ("mq-mover", "mq-reaper"):
        start(name)
    left = set(drain(servers[0], root))
    assert load.other_answers == []
    assert len(load.sent) > 20
    assert load.sent <= left | load.asked
    # A delete that was answered holds.
    assert not load.deleted & left
    wait_until(lambda: tree(root) == set())


def drain(server: Program, root: Path) -> list[bytes]:
    """Fetch and delete until nothing is left anywhere; parts of messages whose writer was killed do not count."""
    bodies = []
    with server.talk() as talk:

        def fetched_all() -> bool:
            reply = talk("GET", "/q/messages")
            if reply.status == 200:
                bodies.append(reply.body)
                talk("DELETE", f"/q/messages/{reply.headers['X-Message-Id']}")
                return False
            for part in (root / "new").iterdir():
                with suppress(FileNotFoundError):  # whole ones are moved meanwhile
                    if not part.stat().st_mode & 0o400:
                        part.unlink()
            return not any(path.startswith(("new/", "queues/", "delay/")) for path in tree(root))

        wait_until(fetched_all)
    return bodies
