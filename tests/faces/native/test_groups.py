"""Messages of a group under `/v1`: their order, and how they are sent, claimed and shown."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import limits
from tests.faces.native.conftest import STORES, Native, bodies
from tests.servers import ThreadServer

pytestmark = pytest.mark.parametrize("store", STORES)


@pytest.fixture
def line(native: Native) -> Native:
    """With a queue of groups called line."""
    assert native.create("line", groups="fifo").status == 201
    return native


def of(group: str | None, *texts: str) -> list[dict[str, Any]]:
    return [{"body": text, "group": group} for text in texts]


def test_a_group_is_a_word_where_the_queue_does_not_ask_for_order(native: Native) -> None:
    native.send(*of("a", "1", "2"), *of(None, "3"))
    [first] = native.claim()
    assert (first["body"], first["group"]) == ("1", "a")
    assert [(one["body"], one["group"]) for one in native.claim(limit=10)] == [("2", "a"), ("3", None)]


def test_a_claim_takes_of_a_group_what_is_not_behind_a_hidden_one(line: Native) -> None:
    line.send(*of("a", "a1", "a2", "a3"), *of("b", "b1"), *of(None, "0"), to="line")
    first, second = line.claim("line", limit=2)
    assert bodies([first, second]) == ["a1", "a2"]
    line.send(*of("a", "a4"), to="line")
    assert bodies(line.claim("line", limit=10)) == ["b1", "0"]
    assert line.done("ack", first["receipt"], queue="line") == [True]
    assert line.claim("line") == []
    assert line.done("release", second["receipt"], queue="line") == [True]
    assert bodies(line.claim("line", limit=10)) == ["a2", "a3", "a4"]


def test_a_receipt_is_good_only_while_its_claim_lasts(line: Native, server: ThreadServer) -> None:
    line.send(*of("a", "1"), to="line")
    [message] = line.claim("line", hold_ms=1_000)
    server.clock.advance(2)
    for verb, more in (("renew", {"hold_ms": 1_000}), ("release", {}), ("ack", {})):
        assert line.done(verb, message["receipt"], queue="line", **more) == [False]
    assert line.done("ack", message["id"], queue="line") == [True]


def test_those_behind_are_ready_and_are_paged_through(line: Native, server: ThreadServer) -> None:
    line.send(*of("a", "a1", "a2", "a3"), *of("b", "b1", "b2"), *of(None, "0"), to="line")
    line.claim("line", limit=1)
    count = line.count("line")
    assert (count["ready"], count["claimed"], count["delayed"], count["total"]) == (5, 1, 0, 6)
    seen, after = [], ""
    while messages := (page := line.peek(f"?limit=1{after}", queue="line"))["messages"]:
        seen += messages
        after = f"&after={page['after']}"
    assert bodies(seen) == ["b1", "0", "a1", "a2", "a3", "b2"]
    assert [message["behind"] for message in seen] == [False, False, False, True, True, True]
    assert [message["ready_at"] > 0 for message in seen] == [False, False, True, False, False, False]
    assert [message["first_claimed_at"] is not None for message in seen] == [False, False, True, False, False, False]
    assert line.peek("?limit=100", queue="line")["messages"] == seen


def test_a_delay_of_its_own_is_refused_and_that_of_the_queue_is_kept(line: Native, server: ThreadServer) -> None:
    server.clock.stop()
    own = {"messages": [{"body": "1", "group": "a"}, {"body": "2", "group": "a", "delay_ms": 0}]}
    reply = line.talk("POST", "/v1/queues/line/messages", own)
    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert "delay" in reply.json["error"]
    assert line.count("line")["total"] == 0
    line.send({"body": "alone", "delay_ms": 60_000}, to="line")
    line.talk("PATCH", "/v1/queues/line", {"delay_ms": 10_000})
    line.send(*of("a", "1", "2"), to="line")
    assert line.claim("line") == []
    server.clock.advance(11)
    assert bodies(line.claim("line", limit=10)) == ["1", "2"]


@pytest.mark.parametrize("group", ["x", "g" * limits.GROUP_LENGTH, "Zürich 🐟", "aws:x", '"', "null", "0"])
def test_groups_of_all_kinds(line: Native, group: str) -> None:
    line.send(*of(group, "1", "2"), *of("another", "3"), to="line")
    assert bodies([message for message in line.claim("line", limit=1) if message["group"] == group]) == ["1"]
    assert bodies(line.claim("line", limit=10)) == ["3"]


def test_a_group_in_lines_of_json(line: Native) -> None:
    body = b'{"body": "1", "group": "a", "dedup_id": "x"}\n{"body": "2", "group": "a"}\n'
    reply = line.talk("POST", "/v1/queues/line/messages", body, content_type="application/x-ndjson")
    assert (reply.status, reply.json["stored"]) == (201, 2)
    assert bodies(line.claim("line", limit=1)) == ["1"]
    assert line.claim("line") == []


def test_the_first_claim_of_a_message_is_remembered(native: Native, server: ThreadServer) -> None:
    native.send("x")
    [message] = native.claim(hold_ms=0)
    first = message["first_claimed_at"]
    assert message["sent_at"] <= first <= server.clock()
    server.clock.advance(60)
    assert native.claim()[0]["first_claimed_at"] == first


def test_other_apis_send_to_a_queue_of_groups_and_take_from_it(line: Native) -> None:
    line.send(*of("a", "1", "2"), to="line")
    reply = line.talk("POST", "/messages/line", b"from mqs", content_type="text/plain")
    assert reply.status == 201
    got = line.talk("GET", "/messages/line")
    assert (got.status, got.body) == (200, b"1")
    assert line.talk("GET", "/messages/line").body == b"from mqs"
    assert line.talk("GET", "/messages/line").status == 204
    assert line.talk("DELETE", f"/messages/{got.headers['X-MQS-MESSAGE-ID']}").status in (200, 204)
    assert line.talk("GET", "/messages/line").body == b"2"


def test_an_update_through_mqs_keeps_what_mqs_has_no_word_for(native: Native) -> None:
    native.create("line", groups="fifo", dedup="window", dedup_window_ms=5_000, dedup_scope="group", labels={"a": "b"})
    config = {"retention_timeout": 60, "visibility_timeout": 30, "message_deduplication": True}
    assert native.talk("POST", "/queues/line", config).json["message_deduplication"] is True
    settings = native.talk("GET", "/v1/queues/line").json["settings"]
    assert (settings["groups"], settings["dedup"], settings["retention_ms"]) == ("fifo", "window", 60_000)
    assert (settings["dedup_window_ms"], settings["dedup_scope"], settings["labels"]) == (5_000, "group", {"a": "b"})
    config["message_deduplication"] = False
    assert native.talk("POST", "/queues/line", config).status == 200
    assert native.talk("GET", "/v1/queues/line").json["settings"]["dedup"] == "off"
