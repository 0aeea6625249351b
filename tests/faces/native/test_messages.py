"""Messages under `/v1`: send, claim, ack, renew, release, peek, purge."""

from __future__ import annotations

import base64
import uuid

import pytest

from penstock import limits
from penstock.limits import Limits
from tests.faces.native.conftest import Native, bodies
from tests.servers import ThreadServer

MEGABYTE = 1024 * 1024


def test_send_claim_ack(server: ThreadServer, native: Native) -> None:
    before = server.clock()
    [sent] = native.send({"body": "hello", "content_type": "text/plain", "attributes": {"k": "v"}})
    assert sent["stored"] is True
    assert str(uuid.UUID(sent["id"])) == sent["id"]
    [message] = native.claim()
    assert before <= message.pop("sent_at") <= server.clock()
    assert before + 30_000 <= message.pop("ready_at") <= server.clock() + 30_000
    assert before <= message.pop("first_claimed_at") <= server.clock()
    assert message == {
        "id": sent["id"],
        "receipt": f"{sent['id']}.1",
        "queue": "q",
        "body": "hello",
        "content_type": "text/plain",
        "attributes": {"k": "v"},
        "receives": 1,
        "came_from": None,
        "group": None,
    }
    assert native.claim() == []
    assert native.done("ack", message["receipt"]) == [True]
    assert native.done("ack", message["receipt"]) == [False]
    assert native.count()["total"] == 0


def test_a_bare_message_has_no_type_and_no_attributes(native: Native) -> None:
    native.send("x", {"body": "y", "attributes": {}, "content_type": None})
    for message in native.claim(limit=2):
        assert (message["content_type"], message["attributes"]) == (None, {})


def test_send_keeps_the_order_and_answers_one_each(native: Native) -> None:
    sent = native.send("1", "2", "3")
    messages = native.claim(limit=10)
    assert bodies(messages) == ["1", "2", "3"]
    assert [one["id"] for one in sent] == [message["id"] for message in messages]


def test_a_twin_is_named_and_not_stored(native: Native) -> None:
    native.create("once", dedup="send")
    first, second, other = native.send("a", "a", "b", to="once")
    assert (first["stored"], second["stored"], other["stored"]) == (True, False, True)
    assert second["id"] == first["id"]


# Bodies


@pytest.mark.parametrize(
    "text", ["", "é — 🐟", "\0\r\n", '"quoted"', "x" * MEGABYTE], ids=["empty", "unicode", "control", "quotes", "long"]
)
def test_text_comes_back_as_text(native: Native, text: str) -> None:
    native.send(text)
    [message] = native.claim()
    assert message["body"] == text
    assert "body_base64" not in message


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe", bytes(range(256)), b"\xed\xa0\x80", b"\xff" * MEGABYTE],
    ids=["short", "all", "surrogate", "long"],
)
def test_bytes_that_are_not_text_come_back_in_base64(native: Native, body: bytes) -> None:
    native.send({"body_base64": base64.b64encode(body).decode()})
    for message in (native.peek()["messages"][0], native.claim()[0]):
        assert base64.b64decode(message["body_base64"]) == body
        assert "body" not in message


def test_base64_of_text_comes_back_as_text(native: Native) -> None:
    native.send({"body_base64": base64.b64encode("é".encode()).decode()}, {"body_base64": ""})
    assert bodies(native.claim(limit=2)) == ["é", ""]


# Claims


def test_claim_takes_up_to_its_limit(native: Native) -> None:
    native.send("1", "2", "3")
    assert bodies(native.claim(limit=2)) == ["1", "2"]
    assert bodies(native.claim(limit=2)) == ["3"]


def test_claim_with_an_empty_body_takes_one(native: Native) -> None:
    native.send("1", "2")
    assert len(native.talk("POST", "/v1/queues/q/claim").json["messages"]) == 1


def test_hold_is_the_callers_or_the_queues(server: ThreadServer, native: Native) -> None:
    server.clock.stop()
    native.create("brief", visibility_ms=1_000)
    native.send("x", to="brief")
    assert native.claim("brief", hold_ms=5_000)
    server.clock.advance(2)
    assert native.claim("brief") == []
    server.clock.advance(3)
    assert native.claim("brief")[0]["receives"] == 2
    server.clock.advance(1)
    assert native.claim("brief", hold_ms=0)[0]["receives"] == 3
    assert native.claim("brief", hold_ms=0)[0]["receives"] == 4, "held for no time, it stays ready"


def test_delay_is_the_messages_or_the_queues(server: ThreadServer, native: Native) -> None:
    server.clock.stop()
    native.create("slow", delay_ms=10_000)
    native.send("late", {"body": "now", "delay_ms": 0}, {"body": "soon", "delay_ms": 5_000}, to="slow")
    assert bodies(native.claim("slow", limit=9)) == ["now"]
    server.clock.advance(5)
    assert bodies(native.claim("slow", limit=9)) == ["soon"]
    server.clock.advance(5)
    assert bodies(native.claim("slow", limit=9)) == ["late"]


def test_a_claim_may_wait(native: Native) -> None:
    native.send({"body": "later", "delay_ms": 50})
    assert bodies(native.claim(wait_ms=60_000)) == ["later"]
    assert native.claim(wait_ms=1) == []


# Receipts


def test_a_stale_receipt_touches_nothing(server: ThreadServer, native: Native) -> None:
    native.send("x")
    [first] = native.claim()
    server.clock.advance(31)
    [second] = native.claim()
    assert first["receipt"] != second["receipt"]
    assert native.done("ack", first["receipt"]) == [False]
    assert native.done("renew", first["receipt"], hold_ms=0) == [False]
    assert native.done("release", first["receipt"]) == [False]
    assert native.claim() == [], "the second claim still holds"
    assert native.done("ack", second["receipt"]) == [True]


def test_a_receipt_is_good_after_its_claim_has_run_out_until_the_next(server: ThreadServer, native: Native) -> None:
    native.send("x")
    [message] = native.claim()
    server.clock.advance(31)
    assert native.done("ack", message["receipt"]) == [True]


def test_an_id_alone_is_a_receipt_no_matter_who_holds_the_message(native: Native) -> None:
    [sent] = native.send("x")
    native.claim()
    assert native.done("ack", sent["id"]) == [True]


def test_a_receipt_is_good_only_in_its_own_queue(native: Native) -> None:
    native.create("other")
    native.send("x")
    [message] = native.claim()
    for verb, asked in (("ack", {}), ("release", {}), ("renew", {"hold_ms": 1})):
        assert native.done(verb, message["receipt"], queue="other", **asked) == [False]
        assert native.done(verb, message["receipt"], queue="nowhere", **asked) == [False]
    assert native.count()["claimed"] == 1


def test_each_receipt_has_its_own_outcome(native: Native) -> None:
    native.send("1", "2", "3")
    one, two, _ = [message["receipt"] for message in native.claim(limit=3)]
    unknown = f"{uuid.uuid4()}.1"
    assert native.done("ack", one, unknown, "rubbish", one, two.upper()) == [True, False, False, False, True]
    assert native.count()["total"] == 1


def test_renew_lengthens_and_shortens(server: ThreadServer, native: Native) -> None:
    server.clock.stop()
    native.send("x")
    [message] = native.claim(hold_ms=10_000)
    assert native.done("renew", message["receipt"], hold_ms=60_000) == [True]
    server.clock.advance(30)
    assert native.claim() == []
    assert native.done("renew", message["receipt"], hold_ms=5_000) == [True]
    server.clock.advance(5)
    [again] = native.claim()
    assert again["receives"] == 2
    assert native.done("renew", again["receipt"], hold_ms=0) == [True]
    assert native.claim()[0]["receives"] == 3


def test_release_makes_ready_at_once(native: Native) -> None:
    native.send("1", "2")
    one, two = native.claim(limit=2)
    assert native.done("release", two["receipt"]) == [True]
    assert bodies(native.claim(limit=2)) == ["2"]
    assert native.done("release", two["receipt"]) == [False]
    assert native.done("ack", one["receipt"]) == [True]


def test_release_with_a_delay(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    native.send("1", "2")
    one, two = native.claim(limit=2)
    assert native.done("release", one["receipt"], delay_ms=5_000) == [True]
    assert native.done("release", two["receipt"], delay_ms=None) == [True]
    assert bodies(native.claim(limit=2)) == ["2"]
    server.clock.advance(5)
    assert bodies(native.claim(limit=2)) == ["1"]


# Peek


def test_peek_pages_through_everything_and_changes_nothing(native: Native) -> None:
    native.send(*(str(number) for number in range(7)), {"body": "delayed", "delay_ms": 60_000})
    native.claim()
    seen, query = [], "?limit=3"
    while True:
        page = native.peek(query)
        if not page["messages"]:
            break
        assert len(page["messages"]) <= 3
        seen += page["messages"]
        query = f"?limit=3&after={page['after']}"
    assert page["after"] is None
    assert bodies(seen) == ["1", "2", "3", "4", "5", "6", "0", "delayed"]
    assert [message["receives"] for message in seen] == [0, 0, 0, 0, 0, 0, 1, 0]
    assert not any("receipt" in message for message in seen)
    assert [message["ready_at"] > 0 for message in seen] == [False] * 6 + [True] * 2
    assert len(native.claim(limit=10)) == 6


def test_peek_shows_ten_unless_told(native: Native) -> None:
    native.send(*("x" for _ in range(12)))
    assert len(native.peek()["messages"]) == 10


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=10001",
        "limit=x",
        "after=",
        "after=1",
        "after=-",
        "after=1-",
        "after=a-b",
        "after=1-2-3",
        "after=%D9%A3-1",
        f"after={'9' * 19}-1",
        f"after=1-{'9' * 19}",
        f"after={'9' * 5000}-1",
    ],
)
def test_peek_wants_a_limit_and_a_cursor_of_its_own(native: Native, query: str) -> None:
    reply = native.talk("GET", f"/v1/queues/q/messages?{query}")
    assert reply.status == 400
    assert reply.json["error"]


# Purge


def test_purge_takes_all_states_and_says_how_many(native: Native) -> None:
    native.send("1", "2", {"body": "3", "delay_ms": 60_000})
    [message] = native.claim()
    reply = native.talk("POST", "/v1/queues/q/purge")
    assert (reply.status, reply.json) == (200, {"purged": 3})
    assert native.done("ack", message["receipt"]) == [False]
    assert native.talk("POST", "/v1/queues/q/purge").json == {"purged": 0}


def test_purge_of_more_than_one_step(native: Native) -> None:
    count = Limits().step_rows * 2 + 1
    for start in range(0, count, limits.SEND_LIMIT):
        native.send(*("x" for _ in range(min(limits.SEND_LIMIT, count - start))))
    assert native.talk("POST", "/v1/queues/q/purge").json == {"purged": count}


def test_purge_of_what_is_older(native: Native, server: ThreadServer) -> None:
    native.send(*(str(number) for number in range(1_500)))
    server.clock.advance(60)
    native.send("young", "younger")
    assert native.talk("POST", "/v1/queues/q/purge", {"older_than_ms": 120_000}).json == {"purged": 0}
    assert native.talk("POST", "/v1/queues/q/purge", {"older_than_ms": 30_000}).json == {"purged": 1_500}
    assert native.talk("GET", "/v1/queues/q").json["count"]["total"] == 2


@pytest.mark.parametrize("asked", [{"older_than_ms": -1}, {"older_than_ms": "1d"}, {"older": 1}, []])
def test_purge_with_nonsense_changes_nothing(native: Native, asked: object) -> None:
    native.send("a")
    assert native.talk("POST", "/v1/queues/q/purge", asked).status == 400
    assert native.talk("GET", "/v1/queues/q").json["count"]["total"] == 1
