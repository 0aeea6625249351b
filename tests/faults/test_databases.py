"""Any number of servers on one PostgreSQL or MariaDB database."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from penstock.clock import system_clock
from penstock.model import Draft, MoveStatus, Settings
from tests.faces.emodb.conftest import Emo
from tests.faces.emodb.test_moves import end, start
from tests.faces.mqs.conftest import PLAIN
from tests.faults.crowd import Cluster, Crowd, opened, peek_all, running, together, wait_until
from tests.talk import Talk

COUNT = 10_000


def test_every_message_is_processed_exactly_once(cluster: Cluster) -> None:
    crowd = Crowd(cluster.urls)
    crowd.create()
    crowd.start(senders=6, claimers=6, each=40)
    crowd.finish()
    assert (crowd.refusals, crowd.perhaps_sent, crowd.perhaps_acked) == (0, set(), set())
    assert crowd.acked.keys() == crowd.sent
    assert len(crowd.sent) == 6 * 40 * 3
    crowd.check(cluster.store)


def test_one_consumer_sees_the_messages_of_one_producer_in_order(cluster: Cluster, talks: list[Talk]) -> None:
    assert talks[0]("PUT", "/v1/queues/order").status == 201
    seen: list[int] = []

    def consume() -> None:
        with cluster.servers[0].talk() as one, cluster.servers[1].talk() as two:
            while len(seen) < 300:
                wanted = {"limit": 7, "wait_ms": 1_000, "hold_ms": 600_000}
                claimed = one("POST", "/v1/queues/order/claim", wanted).json["messages"]
                seen.extend(int(message["body"]) for message in claimed)
                one, two = two, one

    consumer = threading.Thread(target=consume)
    consumer.start()
    numbers = iter(range(300))
    turn = 0
    while batch := [{"body": str(number)} for number in islice(numbers, turn % 9 + 1)]:
        assert talks[turn % 3]("POST", "/v1/queues/order/messages", {"messages": batch}).status == 201
        turn += 1
    consumer.join()
    assert seen == list(range(300))


def test_a_killed_server_loses_nothing_that_was_promised(cluster: Cluster, tmp_path: Path) -> None:
    """Two of three die in the middle of it, and the third goes on."""
    with running(tmp_path, *[cluster.store] * 3) as servers:
        crowd = Crowd([server.url for server in servers], "killed")
        crowd.create()
        crowd.start(senders=6, claimers=6)
        for server in servers[:2]:
            count = len(crowd.acked)
            wait_until(lambda count=count: len(crowd.acked) > count + 20)
            server.kill()
        count = len(crowd.acked)
        wait_until(lambda: len(crowd.acked) > count + 20)
        crowd.stop()
        assert len(crowd.sent) > 50
        crowd.check(cluster.store)


def test_the_same_content_sent_to_several_servers_at_once_is_stored_once(cluster: Cluster, talks: list[Talk]) -> None:
    assert talks[0]("PUT", "/queues/once", {**PLAIN, "message_deduplication": True}).status == 201
    for number in range(30):
        replies = together(*[(talk, "POST", "/messages/once", b"%d" % number) for talk in talks])
        assert sorted(reply.status for reply in replies) == [200, 200, 201]
    with opened(cluster.store) as store, store.unit(write=False) as unit:
        assert peek_all(unit, "once") == [b"%d" % number for number in range(30)]


def test_twins_polled_through_several_servers_at_once_are_handed_out_once(talks: list[Talk]) -> None:
    emos = [Emo(talk, "/dedupq/1") for talk in talks]
    for number in range(30):
        together(*[(emo.post, "twins/send", str(number)) for emo in emos])
        polls = together(*[(emo.get, "twins/poll?ttl=600") for emo in emos])
        assert [reply.status for reply in polls] == [200] * 3
        assert [message["payload"] for reply in polls for message in reply.json] == [number]


def test_a_queue_comes_into_being_on_several_servers_at_once(talks: list[Talk]) -> None:
    for number in range(15):
        replies = together(*[(talk, "PUT", f"/queues/new{number}", PLAIN) for talk in talks])
        assert sorted(reply.status for reply in replies) == [201, 409, 409]
    for base in ("/queue/1", "/dedupq/1"):
        for number in range(15):
            replies = together(*[(Emo(talk, base).post, f"born{number}/send", "1") for talk in talks])
            assert [reply.status for reply in replies] == [200] * 3
            assert Emo(talks[0], base).size(f"born{number}") == 3


def test_a_queue_is_deleted_and_made_again_while_others_use_it(cluster: Cluster, talks: list[Talk]) -> None:
    statuses: set[int] = set()
    stopping = threading.Event()

    def send(url: str) -> None:
        with Talk(url) as talk:
            while not stopping.is_set():
                statuses.add(talk("POST", "/messages/brief", b"x").status)
                statuses.add(talk("GET", "/messages/brief").status)

    threads = [threading.Thread(target=send, args=(url,)) for url in cluster.urls[1:]]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert talks[0]("PUT", "/queues/brief", PLAIN).status == 201
        assert talks[1]("GET", "/queues/brief").json["status"]["messages"] >= 0
        assert talks[2]("DELETE", "/queues/brief").status == 200
        assert talks[0]("POST", "/messages/brief", b"x").status == 404
    stopping.set()
    for thread in threads:
        thread.join()
    assert statuses <= {200, 201, 204, 404}


def test_a_name_with_a_nul_is_unknown_and_does_no_harm(talks: list[Talk]) -> None:
    assert talks[0]("PUT", "/queues/sound", PLAIN).status == 201
    one, two, three = talks
    for _ in range(20):
        unknown = [(one, "GET", "/messages/a%00b"), (two, "POST", "/messages/a%00b", b"x")]
        replies = together(*unknown, (three, "GET", "/queue/1/_move/%00"))
        assert [reply.status for reply in replies] == [404] * 3
        with ThreadPoolExecutor(1) as pool:
            sending = [pool.submit(two, "POST", "/messages/sound", b"x") for _ in range(3)]
            assert one("GET", "/messages/a%00b").status == 404
            assert [sent.result().status for sent in sending] == [201] * 3


def fill(store: str, queue: str, count: int) -> None:
    with opened(store) as opened_store, opened_store.unit() as unit:
        unit.create_queue(queue, Settings(), system_clock())
        unit.send(queue, [Draft(b"%d" % number, "application/json") for number in range(count)], system_clock())


def test_a_move_is_carried_on_when_the_server_that_began_it_dies(
    cluster: Cluster, talks: list[Talk], tmp_path: Path
) -> None:
    fill(cluster.store, "here", COUNT)
    with running(tmp_path, cluster.store) as [doomed], opened(cluster.store) as store, store.unit() as unit:
        # No claim gets past the first message until we let go of it.
        [held] = unit.claim("here", 1, system_clock(), 0).messages
        with doomed.talk() as talk:
            reference = start(Emo(talk, "/queue/1"), "here", "there")
        doomed.kill()
        assert Emo(talks[0], "/queue/1").get(f"_move/{reference}").json["status"] == "IN_PROGRESS"
    assert end(Emo(talks[0], "/queue/1"), reference)["status"] == "COMPLETE"
    with opened(cluster.store) as store, store.unit(write=False) as unit:
        assert unit.moves.find(reference, 0).moved == COUNT
        assert peek_all(unit, "here") == []
        assert peek_all(unit, "there") == [b"%d" % number for number in range(COUNT)]
        assert held.body == b"0"


def test_of_two_moves_that_conflict_one_is_refused(cluster: Cluster, talks: list[Talk]) -> None:
    one, two = Emo(talks[0], "/queue/1"), Emo(talks[1], "/queue/1")
    for turn in range(5):
        left, right = f"left{turn}", f"right{turn}"
        fill(cluster.store, left, 10)
        fill(cluster.store, right, 10)
        with opened(cluster.store) as store, store.unit() as unit:
            # Neither can end, so the other must come while it is in progress.
            unit.claim(left, 1, system_clock(), 0)
            unit.claim(right, 1, system_clock(), 0)
            replies = together((one.post, f"_move?from={left}&to={right}"), (two.post, f"_move?from={right}&to={left}"))
        assert sorted(reply.status for reply in replies) == [200, 409]
        [reference] = [json.loads(reply.body)["id"] for reply in replies if reply.status == 200]
        assert end(one, reference)["status"] == MoveStatus.COMPLETE.value
        assert sorted([one.size(left), one.size(right)]) == [0, 20]
