"""`kill -9` in the middle of a move, and two servers at work on the same one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from penstock.clock import system_clock
from penstock.errors import StoreBusy
from penstock.model import Dedup, Draft, Move, MoveStatus, PeekAfter, Redrive, Settings
from penstock.stores import Store, open_store
from tests.faces.emodb.conftest import Emo
from tests.faces.emodb.test_moves import end, start
from tests.servers import ServerProcess
from tests.waiting import wait_until

COUNT = 20_000


class Watched:
    """The store of the servers, opened as a library beside them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def fill(self, queue: str, settings: Settings) -> None:
        now = system_clock()
        with self.store.unit() as unit:
            unit.create_queue(queue, settings, now)
        for begin in range(0, COUNT, 5_000):
            drafts = [Draft(b"%d" % number, "application/json") for number in range(begin, begin + 5_000)]
            with self.store.unit() as unit:
                unit.send(queue, drafts, now)

    def move(self, reference: str) -> Move:
        with self.store.unit(write=False) as unit:
            return unit.moves.find(reference, 0)

    def kill_when_moved(self, reference: str, count: int, server: ServerProcess) -> MoveStatus:
        """Nothing moves between the look at it and the end of the server."""
        status = None

        def killed() -> bool:
            nonlocal status
            with contextlib.suppress(StoreBusy), self.store.unit() as unit:
                move = unit.moves.find(reference, 0)
                if move.moved >= count:
                    server.kill()
                    status = move.status
            return status is not None

        wait_until(killed, every_s=0.001)
        return status

    def is_empty(self, queue: str) -> bool:
        with self.store.unit(write=False) as unit:
            return not unit.messages.peek(queue, 1)

    def bodies(self, queue: str) -> list[int]:
        numbers: list[int] = []
        after = None
        while True:
            with self.store.unit(write=False) as unit:
                page = unit.messages.peek(queue, 5_000, after)
            if not page:
                return numbers
            numbers += [int(message.body) for message in page]
            after = PeekAfter(page[-1].ready_at, page[-1].seq)


@pytest.fixture
def watched(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path}/data/penstock.db")
    yield Watched(store)
    store.close()


@pytest.mark.parametrize("kills", [(1,), (5_000, 15_000), (2_000, 4_000, 8_000, 16_000)])
@pytest.mark.parametrize(("base", "space"), [("/queue/1", ""), ("/dedupq/1", "dedupq/")])
def test_a_move_survives_kill_9(serve, watched: Watched, base: str, space: str, kills: tuple[int, ...]) -> None:
    watched.fill(f"{space}here", Settings(dedup=Dedup.CLAIM if space else Dedup.OFF))
    server = serve()
    with server.talk() as talk:
        reference = start(Emo(talk, base), "here", "there")
    interrupted = 0
    for count in kills:
        # Nearly done, it may have been quicker than we were.
        interrupted += watched.kill_when_moved(reference, count, server) is MoveStatus.IN_PROGRESS
        # The move may go on before it serves.
        server = serve(waits=False)
    server.wait_until_it_serves()
    with server.talk() as talk:
        assert end(Emo(talk, base), reference)["status"] == "COMPLETE"
    assert interrupted
    assert watched.move(reference).moved == COUNT
    assert watched.bodies(f"{space}here") == []
    assert watched.bodies(f"{space}there") == list(range(COUNT))


@pytest.mark.parametrize("kills", [(1,), (500, 2_000), (100, 200, 400, 800)])
def test_a_move_that_chooses_survives_kill_9(serve, watched: Watched, kills: tuple[int, ...]) -> None:
    """A step that was lost has looked at nothing: each message counts once, and those that are meant move once."""
    watched.fill("here", Settings())
    with watched.store.unit() as unit:
        unit.create_queue("there", Settings(), system_clock())
    server = serve()
    with server.talk() as talk:
        asked = {"source": "here", "target": "there", "filter": {"text": "7"}}
        reference = talk("POST", "/v1/moves", asked).json["id"]
    for count in kills:
        watched.kill_when_moved(reference, count, server)
        server = serve()
    with server.talk() as talk:
        wait_until(lambda: talk("GET", f"/v1/moves/{reference}").json["status"] != "in-progress")
    meant = [number for number in range(COUNT) if "7" in str(number)]
    move = watched.move(reference)
    assert (move.status, move.examined, move.matched, move.moved) == (
        MoveStatus.COMPLETE,
        COUNT,
        len(meant),
        len(meant),
    )
    assert watched.bodies("there") == meant
    assert watched.bodies("here") == [number for number in range(COUNT) if "7" not in str(number)]


def test_several_servers_send_dead_letters_home_once(serve, watched: Watched) -> None:
    now = system_clock()
    with watched.store.unit() as unit:
        unit.create_queue("dead", Settings(), now)
    watched.fill("here", Settings(redrive=Redrive(1, "dead")))
    for _ in range(COUNT // 1_000):
        with watched.store.unit() as unit:
            unit.claim("here", 1_000, now, 1)
    while not watched.is_empty("here"):
        with watched.store.unit() as unit:
            unit.claim("here", 1_000, now + 1, 1)
    servers = [serve() for _ in range(3)]
    with servers[0].talk() as talk:
        reference = talk("POST", "/v1/moves", {"source": "dead", "per_second": 500_000}).json["id"]
    servers[0].kill()
    with servers[1].talk() as talk:
        wait_until(lambda: talk("GET", f"/v1/moves/{reference}").json["status"] != "in-progress")
    move = watched.move(reference)
    assert (move.moved, move.homeless) == (COUNT, 0)
    assert watched.bodies("here") == list(range(COUNT))
    assert watched.bodies("dead") == []


def test_two_servers_share_the_work_of_one_move(serve, watched: Watched) -> None:
    watched.fill("here", Settings())
    first, second = serve(), serve()
    with first.talk() as talk:
        reference = start(Emo(talk, "/queue/1"), "here", "there")
    third = serve()  # which resumes what the first has begun
    with third.talk() as talk:
        assert end(Emo(talk, "/queue/1"), reference)["status"] == "COMPLETE"
    assert watched.move(reference).moved == COUNT
    assert watched.bodies("here") == []
    assert watched.bodies("there") == list(range(COUNT))
    assert [server.terminate() for server in (first, second, third)] == [0, 0, 0]


def test_a_server_takes_over_the_move_of_one_that_has_died(serve, watched: Watched) -> None:
    watched.fill("here", Settings())
    first, second = serve(), serve()
    with first.talk() as talk:
        reference = start(Emo(talk, "/queue/1"), "here", "there")
    first.kill()
    with second.talk() as talk:
        assert end(Emo(talk, "/queue/1"), reference)["status"] == "COMPLETE"
    assert watched.bodies("there") == list(range(COUNT))
