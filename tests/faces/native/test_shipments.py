"""Shipments under `/v1`: numbered, re-readable, settled once."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pyarrow as pa
import pytest

from penstock import limits
from penstock.edge.http import Response
from penstock.faces.native import arrow
from penstock.limits import Limits
from tests.faces.native.conftest import Native, bodies
from tests.faces.native.test_bulk import ARROW, table
from tests.servers import ThreadServer
from tests.talk import Reply
from tests.waiting import wait_until

ROOT = "/v1/queues/q/shipments"


def put(native: Native, number: int = 1, consumer: str = "lake", **asked: Any) -> Reply:
    return native.talk("PUT", f"{ROOT}/{consumer}/{number}", asked)


def post(native: Native, verb: str, number: int = 1, consumer: str = "lake", **asked: Any) -> Reply:
    return native.talk("POST", f"{ROOT}/{consumer}/{number}/{verb}", asked)


def read(native: Native, query: str = "", number: int = 1) -> Reply:
    return native.talk("GET", f"{ROOT}/lake/{number}/messages{query}")


def test_claim_read_settle(native: Native, server: ThreadServer) -> None:
    native.send("1", "2", "3")
    before = server.clock()
    made = put(native, limit=2, hold_ms=60_000)
    assert made.status == 201
    shipment = made.json
    assert before <= shipment.pop("claimed_at") <= server.clock()
    assert before + 60_000 <= shipment.pop("until") <= server.clock() + 60_000
    assert shipment == {
        "queue": "q",
        "consumer": "lake",
        "number": 1,
        "state": "open",
        "messages": 2,
        "bytes": 2,
        "ended_at": None,
        "stored_in": None,
    }
    assert bodies(read(native).json["messages"]) == ["1", "2"]
    assert bodies(native.claim(limit=10)) == ["3"]
    settled = post(native, "settle")
    assert (settled.status, settled.json["state"]) == (200, "settled")
    assert post(native, "settle").json == settled.json
    assert native.count()["total"] == 1
    rows = native.talk("GET", "/v1/ledger").json["rows"]
    assert [row["outcome"] for row in rows] == ["processed", "processed"]


def test_claiming_the_same_number_again_returns_the_same(native: Native) -> None:
    native.send("1")
    first = put(native)
    native.send("2")
    again = put(native)
    assert (first.status, again.status) == (201, 200)
    assert again.json["messages"] == 1
    assert bodies(read(native).json["messages"]) == ["1"]


def test_nothing_ready_makes_no_shipment(native: Native) -> None:
    assert (put(native).status, put(native).body) == (204, b"")
    native.send("1")
    assert put(native).status == 201


def test_the_wrong_number_says_which_is_right(native: Native) -> None:
    native.send("1", "2")
    assert (put(native, 2).status, put(native, 2).json["expected"]) == (409, 1)
    put(native, 1, limit=1)
    assert (put(native, 2).status, put(native, 2).json["expected"]) == (409, 1)
    post(native, "settle")
    assert put(native, 2).status == 201


def test_an_ended_one_fails_loudly(native: Native) -> None:
    native.send("1")
    put(native)
    assert post(native, "release").json["state"] == "released"
    assert post(native, "release").status == 200
    for reply in (put(native), read(native), post(native, "settle"), post(native, "heartbeat")):
        assert (reply.status, reply.json["how"]) == (410, "released")
    assert bodies(native.claim()) == ["1"]


def test_a_settled_one_can_neither_be_read_nor_released(native: Native) -> None:
    native.send("1")
    put(native)
    post(native, "settle")
    for reply in (put(native), read(native), post(native, "release"), post(native, "heartbeat")):
        assert (reply.status, reply.json["how"]) == (410, "settled")


def test_by_bytes(native: Native) -> None:
    native.send("aa", "bb", "c", "dddd")
    made = put(native, max_bytes=5)
    assert (made.status, made.json["messages"], made.json["bytes"]) == (201, 3, 5)
    assert bodies(read(native).json["messages"]) == ["aa", "bb", "c"]
    assert put(native, max_bytes=100).json["messages"] == 3
    post(native, "settle")
    assert put(native, 2, max_bytes=1).json["messages"] == 1


@pytest.mark.parametrize("limits", [Limits(shipment_step_rows=2)])
def test_by_bytes_in_several_units(native: Native) -> None:
    native.send(*"abcdefgh")
    assert put(native, max_bytes=5).json["bytes"] == 5
    assert bodies(read(native).json["messages"]) == [*"abcde"]


@pytest.mark.parametrize("wrong", [0, -1, limits.SHIPMENT_BYTES + 1])
def test_bytes_out_of_bounds(native: Native, wrong: int) -> None:
    refused = put(native, max_bytes=wrong)
    assert refused.status == 400
    assert refused.json == {"error": f"max_bytes must be between 1 and {limits.SHIPMENT_BYTES}"}


def test_it_says_where_it_is_stored(native: Native) -> None:
    native.send("1")
    put(native)
    assert post(native, "settle", stored_in="s3://lake/größe").json["stored_in"] == "s3://lake/größe"
    assert post(native, "settle", stored_in="elsewhere").json["stored_in"] == "s3://lake/größe"
    assert native.talk("GET", f"{ROOT}/lake/1").json["stored_in"] == "s3://lake/größe"
    [listed] = native.talk("GET", ROOT).json["shipments"]
    assert listed["stored_in"] == "s3://lake/größe"


@pytest.mark.parametrize("wrong", ["", "x" * 1_001, "a\nb", "a\0b", "\x7f"])
def test_where_it_is_stored_is_a_printable_text(native: Native, wrong: str) -> None:
    native.send("1")
    put(native)
    assert post(native, "settle", stored_in=wrong).status == 400
    assert native.talk("GET", f"{ROOT}/lake/1").json["state"] == "open"


def test_a_kept_one_can_still_be_read(native: Native) -> None:
    native.send("1", "2")
    put(native, limit=1)
    post(native, "settle", keep=True)
    assert bodies(read(native).json["messages"]) == ["1"]
    assert native.count()["total"] == 1
    put(native, 2)
    post(native, "settle", 2)
    assert read(native).status == 410


def test_a_lost_heartbeat_ends_it(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    native.send("1")
    put(native, hold_ms=10_000)
    server.clock.advance(8)
    before = server.clock()
    assert post(native, "heartbeat", hold_ms=10_000).json["until"] >= before + 10_000
    server.clock.advance(8)
    assert read(native).status == 200
    server.clock.advance(3)
    wait_until(lambda: native.talk("GET", f"{ROOT}/lake/1").json["state"] != "open")
    assert read(native).json["how"] == "lost"
    assert post(native, "settle").status == 410
    assert bodies(native.claim(wait_ms=60_000)) == ["1"]


def test_read_by_position_in_arrow(native: Native) -> None:
    native.send("0", "1", "2", "3", "4")
    put(native)
    page = table(native.talk("GET", f"{ROOT}/lake/1/messages?start=1&limit=3", accept=ARROW))
    assert page.column("body").to_pylist() == [b"1", b"2", b"3"]
    assert page.schema.field("attributes").type == pa.map_(pa.string(), pa.string())
    end = table(native.talk("GET", f"{ROOT}/lake/1/messages?start=5", accept=ARROW))
    assert (end.num_rows, end.schema) == (0, page.schema)


def test_a_large_one_is_gathered_and_settled_in_steps(native: Native) -> None:
    count = Limits().claim_rows * 2 + 1
    for _ in range(2):
        native.send(*[str(number) for number in range(limits.SEND_LIMIT)])
    assert put(native, limit=count).json["messages"] == count
    positions = []
    while page := read(native, f"?start={len(positions)}").json["messages"]:
        positions += page
    assert len({message["id"] for message in positions}) == count
    post(native, "settle")
    assert native.count()["total"] == 2 * limits.SEND_LIMIT - count
    assert native.talk("GET", "/v1/queues/q").json["tally"] == {"arrived": 2 * limits.SEND_LIMIT, "departed": count}


def test_the_list_knows_everybody(native: Native) -> None:
    native.send("1", "2", "3")
    put(native, limit=1)
    post(native, "settle")
    put(native, 2, limit=1)
    put(native, 1, consumer="other")
    named = [(one["consumer"], one["number"], one["state"]) for one in native.talk("GET", ROOT).json["shipments"]]
    assert named == [("lake", 1, "settled"), ("lake", 2, "open"), ("other", 1, "open")]
    of_one = native.talk("GET", f"{ROOT}?consumer=lake&after=1").json["shipments"]
    assert [one["number"] for one in of_one] == [2]
    of_others = native.talk("GET", f"{ROOT}?after_consumer=lake").json["shipments"]
    assert [one["consumer"] for one in of_others] == ["other"]
    assert native.talk("GET", f"{ROOT}?consumer=lake&after_consumer=lake").status == 400


def test_purged_messages_are_not_read_as_if_they_were_there(native: Native) -> None:
    native.send("1")
    put(native)
    native.talk("POST", "/v1/queues/q/purge")
    assert (read(native).status, read(native).json["how"]) == (410, "purged")


def test_no_receipt_reaches_into_a_shipment(native: Native) -> None:
    [sent] = native.send("1")
    put(native)
    for receipt in (sent["id"], f"{sent['id']}.1"):
        assert native.done("ack", receipt) == [False]
        assert native.done("release", receipt) == [False]
    assert bodies(read(native).json["messages"]) == ["1"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("lake/0", {}),
        ("lake/x", {}),
        ("lake/-1", {}),
        ("lake/99999999999999999999", {}),
        ("la%2Fke/1", {}),
        ("%20/1", {}),
        ("lake/1", {"limit": 0}),
        ("lake/1", {"limit": limits.SHIPMENT_ROWS + 1}),
        ("lake/1", {"hold_ms": 0}),
        ("lake/1", {"hold_ms": "x"}),
        ("lake/1", {"hold": 1}),
    ],
)
def test_what_is_refused(native: Native, path: str, body: dict[str, Any]) -> None:
    native.send("1")
    assert native.talk("PUT", f"{ROOT}/{path}", body).status == 400
    assert native.count()["ready"] == 1


def test_what_is_not_there(native: Native) -> None:
    for reply in (read(native), post(native, "settle"), post(native, "release"), post(native, "heartbeat")):
        assert reply.status == 404
    assert native.talk("GET", f"{ROOT}/lake/1").status == 404
    assert native.talk("PUT", "/v1/queues/none/shipments/lake/1", {}).status == 404
    assert native.talk("GET", "/v1/queues/none/shipments").status == 404


def test_a_shipped_message_can_be_peeked_at(native: Native) -> None:
    native.send("1")
    put(native)
    [message] = native.peek()["messages"]
    assert message["ready_at"] == limits.SHIPPED
    page = table(native.talk("GET", "/v1/queues/q/messages", accept=ARROW))
    assert page.column("ready_at").to_pylist()[0].year == 9999


def test_what_a_thread_has_read_is_the_same_in_arrow(native: Native) -> None:
    native.send("1", {"body": "2", "attributes": {"kind": "odd"}})
    put(native)
    paths = [f"{ROOT}/lake/1/messages?start={start}" for start in (0, 1, 2)]
    first = [table(native.talk("GET", path, accept=ARROW)) for path in paths]
    assert [page.num_rows for page in first] == [2, 1, 0]
    before = set(threading.enumerate())

    def a_thread_reads() -> bool:
        """Once the server has been calm for a quarter of a second."""
        assert [table(native.talk("GET", path, accept=ARROW)) for path in paths] == first
        return any(it.name == "penstock-aside" for it in set(threading.enumerate()) - before)

    wait_until(a_thread_reads)
    assert a_thread_reads()


def test_arrow_is_loaded_while_a_shipment_is_claimed(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread: by the time it is asked for, the event loop need not stand still for it."""
    loaded: queue.Queue[str] = queue.Queue()

    class Watched(arrow.ArrowStream):
        def response(self) -> Response:
            loaded.put(threading.current_thread().name)
            return super().response()

    monkeypatch.setattr(arrow, "ArrowStream", Watched)
    arrow.load_ahead.cache_clear()
    put(native)
    put(native)
    assert loaded.get(timeout=60) == "penstock-arrow"
    assert loaded.empty()
