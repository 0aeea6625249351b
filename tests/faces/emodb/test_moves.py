"""Moves of whole queues, as the document tells of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import StoreUnavailable
from penstock.limits import Limits
from tests.faces.emodb.conftest import Emo
from tests.faces.emodb.test_refusals import refused
from tests.servers import ThreadServer
from tests.waiting import wait_until


def start(emo: Emo, source: str, target: str) -> str:
    reply = emo.post(f"_move?from={source}&to={target}")
    assert reply.status == 200, reply.body
    assert list(reply.json) == ["id"]
    return reply.json["id"]


def end(emo: Emo, reference: str) -> dict:
    """The status of a move once it has ended, which may take a thousand units."""
    wait_until(lambda: emo.get(f"_move/{reference}").json["status"] != "IN_PROGRESS", seconds=600)
    return emo.get(f"_move/{reference}").json


def test_everything_moves(emo: Emo) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(3500))))
    before = {message["id"] for message in emo.peek("q", limit=1000)}
    reference = start(emo, "q", "elsewhere")
    assert end(emo, reference) == {"from": "q", "to": "elsewhere", "status": "COMPLETE"}
    assert (emo.size("q"), emo.size("elsewhere")) == (0, 3500)
    assert {message["id"] for message in emo.peek("elsewhere", limit=1000)} == before
    assert emo.get(f"_move/{reference}").json["status"] == "COMPLETE"


def test_into_a_queue_that_has_messages(emo: Emo) -> None:
    emo.send("a", "1")
    emo.send("b", "2")
    end(emo, start(emo, "a", "b"))
    assert emo.payloads("b") == [1, 2]


def test_what_is_claimed_goes_along_and_arrives_unclaimed(emo: Emo) -> None:
    emo.send("a", "1", "2")
    claimed = emo.poll("a", limit=1)
    end(emo, start(emo, "a", "b"))
    emo.send("a", "3")
    emo.ack("a", claimed)
    assert emo.payloads("b") == [1, 2]
    assert emo.payloads("a") == [3]


def test_a_move_of_nothing_is_complete(emo: Emo) -> None:
    assert end(emo, start(emo, "nowhere", "b"))["status"] == "COMPLETE"
    assert emo.size("b") == 0


def test_a_move_wakes_claims_that_wait_for_the_target(plain: Emo, server: ThreadServer) -> None:
    plain.send("a", "1")
    plain.talk("PUT", "/v1/queues/b")
    claimed: list[dict] = []

    def claim() -> None:
        with server.talk() as talk:
            claimed.extend(talk("POST", "/v1/queues/b/claim", {"wait_ms": 60_000}).json["messages"])

    thread = threading.Thread(target=claim)
    thread.start()
    wait_until(server.waiting_claims)
    start(plain, "a", "b")
    thread.join()
    assert [message["body"] for message in claimed] == ["1"]


def test_into_itself(emo: Emo) -> None:
    emo.send("a", "1")
    assert "into itself" in refused(emo.post("_move?from=a&to=a"))
    assert emo.size("a") == 1


@pytest.mark.parametrize("query", ["", "from=a", "to=b", "from=&to=b", "from=a&to="])
def test_without_both_names(emo: Emo, query: str) -> None:
    assert refused(emo.post(f"_move?{query}"))


@pytest.mark.parametrize("reference", ["0", "no-such-move", "00000000-0000-0000-0000-000000000000", "%C3%A9"])
def test_an_unknown_move(emo: Emo, reference: str) -> None:
    assert "no move" in refused(emo.get(f"_move/{reference}"), 404)


def test_a_move_is_known_to_its_own_service_only(plain: Emo, dedup: Emo) -> None:
    of_plain, of_dedup = start(plain, "a", "b"), start(dedup, "a", "b")
    assert end(plain, of_plain)["from"] == end(dedup, of_dedup)["from"] == "a"
    assert refused(dedup.get(f"_move/{of_plain}"), 404)
    assert refused(plain.get(f"_move/{of_dedup}"), 404)


# A message a step, so that a move has many of them.
slow_moves = pytest.mark.parametrize("limits", [Limits(step_rows=1)])


@contextmanager
def slow_units(server: ThreadServer) -> Iterator[None]:
    """A step takes its time, so that a move is still in progress when the next requests come."""
    unit = server.store.unit

    def slow(*args: Any, **named: Any) -> Any:
        time.sleep(0.02)
        return unit(*args, **named)

    server.store.unit = slow
    yield
    server.store.unit = unit


@slow_moves
def test_two_moves_of_one_queue_at_once(emo: Emo, server: ThreadServer) -> None:
    emo.post("a/sendbatch", json.dumps(list(range(500))))
    with slow_units(server):
        first = start(emo, "a", "b")
        for source, target in (("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a")):
            assert "still in progress" in refused(emo.post(f"_move?from={source}&to={target}"), 409)
    emo.send("c", "-1")
    second = start(emo, "c", "b")
    assert end(emo, first)["status"] == end(emo, second)["status"] == "COMPLETE"
    assert (emo.size("a"), emo.size("b"), emo.size("c")) == (0, 501, 0)
    assert end(emo, start(emo, "b", "a"))["status"] == "COMPLETE"


@slow_moves
def test_to_a_queue_deleted_meanwhile(emo: Emo, server: ThreadServer) -> None:
    emo.post("a/sendbatch", json.dumps(list(range(500))))
    full_name = "dedupq%2Fb" if "dedup" in emo.base else "b"
    with slow_units(server):
        reference = start(emo, "a", "b")
        assert emo.talk("DELETE", f"/v1/queues/{full_name}").status == 200
    assert end(emo, reference) == {"from": "a", "to": "b", "status": "ERROR"}
    left = emo.size("a")
    assert 0 < left <= 500
    assert len(emo.poll("a", limit=1000)) == left
    assert emo.size("b") == 0


@slow_moves
def test_other_requests_are_served_between_the_steps(emo: Emo, server: ThreadServer) -> None:
    emo.post("a/sendbatch", json.dumps(list(range(1000))))
    with slow_units(server):
        reference = start(emo, "a", "b")
        emo.send("other", "1")
        assert emo.get(f"_move/{reference}").json["status"] == "IN_PROGRESS"
        assert 0 < emo.size("a") < 1000
    assert end(emo, reference)["status"] == "COMPLETE"


@slow_moves
def test_a_move_goes_on_after_the_store_was_away(emo: Emo, server: ThreadServer, monkeypatch) -> None:
    emo.post("a/sendbatch", json.dumps(list(range(300))))
    reference = start(emo, "a", "b")
    away = threading.Event()

    def unit(*_args: object) -> None:
        away.set()
        raise StoreUnavailable("away")

    monkeypatch.setattr(server.store, "unit", unit)
    away.wait()
    monkeypatch.undo()
    assert end(emo, reference)["status"] == "COMPLETE"
    assert (emo.size("a"), emo.size("b")) == (0, 300)


def test_the_status_is_kept_for_a_day(emo: Emo, server: ThreadServer) -> None:
    """Messages of queues that keep them for a minute show that sweeps have run."""
    for name in ("first", "last"):
        emo.talk("PUT", f"/v1/queues/{name}", {"retention_ms": 60_000})
        emo.talk("POST", f"/v1/queues/{name}/messages", {"messages": [{"body": "x"}]})

    def left(name: str) -> int:
        return emo.talk("GET", f"/v1/queues/{name}").json["count"]["total"]

    reference = start(emo, "a", "b")
    end(emo, reference)
    server.clock.advance(24 * 3600 - 60)
    wait_until(lambda: not (left("first") or left("last")))
    assert emo.get(f"_move/{reference}").status == 200
    server.clock.advance(120)
    wait_until(lambda: emo.get(f"_move/{reference}").status != 200)
    assert refused(emo.get(f"_move/{reference}"), 404)


@slow_moves
def test_a_stop_in_the_middle_is_clean_and_the_next_start_goes_on(tmp_path, limits: Limits, caplog) -> None:
    url = f"sqlite:///{tmp_path}/p.db"
    server = ThreadServer(url, limits=limits)
    with server.talk() as talk:
        emo = Emo(talk, "/queue/1")
        emo.post("a/sendbatch", json.dumps(list(range(1000))))
        reference = start(emo, "a", "b")
    server.stop()
    assert caplog.records == []
    server = ThreadServer(url, limits=limits)
    try:
        with server.talk() as talk:
            emo = Emo(talk, "/queue/1")
            assert end(emo, reference)["status"] == "COMPLETE"
            assert (emo.size("a"), emo.size("b")) == (0, 1000)
    finally:
        server.stop()


def test_what_is_not_a_method_of_a_move(emo: Emo) -> None:
    assert emo.get("_move").status == 405
    assert emo.post("_move/x").status == 405
