"""Deduplication within a window under `/v1`."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from penstock import limits
from tests.faces.native.conftest import STORES, Native
from tests.servers import ThreadServer

pytestmark = pytest.mark.parametrize("store", STORES)


def send(native: Native, body: str, queue: str = "once", **more: Any) -> tuple[str, bool]:
    [sent] = native.send({"body": body, **more}, to=queue)
    return sent["id"], sent["stored"]


@pytest.fixture
def once(native: Native) -> Native:
    """With a queue called once, of a window of five minutes."""
    assert native.create("once", dedup="window").status == 201
    return native


def test_a_twin_is_not_stored_even_when_the_first_is_gone(once: Native, server: ThreadServer) -> None:
    server.clock.stop()
    first, stored = send(once, "one", dedup_id="x")
    assert stored
    assert send(once, "two", dedup_id="x") == (first, False)
    [message] = once.claim("once")
    assert once.done("ack", message["receipt"], queue="once") == [True]
    assert send(once, "three", dedup_id="x") == (first, False)
    server.clock.advance(280)
    assert send(once, "three", dedup_id="x") == (first, False)
    server.clock.advance(21)
    later, stored = send(once, "three", dedup_id="x")
    assert (stored, later == first) == (True, False)


def test_the_window_ends_although_the_first_is_still_there(once: Native, server: ThreadServer) -> None:
    send(once, "one", dedup_id="x")
    server.clock.advance(301)
    assert send(once, "one", dedup_id="x")[1]
    assert once.count("once")["total"] == 2


def test_without_an_id_the_body_counts(once: Native) -> None:
    first, _ = send(once, "one")
    assert send(once, "one") == (first, False)
    assert send(once, "one", dedup_id=hashlib.sha256(b"one").hexdigest()) == (first, False)
    assert send(once, "one", dedup_id="another")[1]


def test_a_window_of_choice(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    native.create("once", dedup="window", dedup_window_ms=limits.DEDUP_WINDOW_LEAST_MS)
    first, _ = send(native, "one", dedup_id="x")
    server.clock.advance(0.1)
    assert send(native, "one", dedup_id="x") == (first, False)
    server.clock.advance(1)
    assert send(native, "one", dedup_id="x")[1]
    native.talk("PATCH", "/v1/queues/once", {"dedup_window_ms": limits.DEDUP_WINDOW_MOST_MS})
    second, _ = send(native, "one", dedup_id="y")
    server.clock.advance(24 * 3600 - 10)
    assert send(native, "one", dedup_id="y") == (second, False)


def test_the_same_id_in_another_group(native: Native) -> None:
    native.create("once", dedup="window", dedup_scope="group")
    native.create("queue", dedup="window")
    assert [send(native, "x", dedup_id="x", group=group)[1] for group in ("a", "b", "a")] == [True, True, False]
    assert [send(native, "x", "queue", dedup_id="x", group=group)[1] for group in "aba"] == [True, False, False]


def test_a_purge_forgets(once: Native) -> None:
    first, _ = send(once, "one", dedup_id="x")
    assert once.talk("POST", "/v1/queues/once/purge").json == {"purged": 1}
    later, stored = send(once, "one", dedup_id="x")
    assert (stored, later == first) == (True, False)


def test_twins_of_one_send(once: Native) -> None:
    messages = [{"body": str(number), "dedup_id": "x"} for number in range(3)]
    sent = once.send(*messages, to="once")
    assert ([one["stored"] for one in sent], len({one["id"] for one in sent})) == ([True, False, False], 1)


def test_an_id_in_a_queue_that_keeps_one_while_it_is_there(native: Native) -> None:
    native.create("once", dedup="send")
    first, _ = send(native, "one", dedup_id="x")
    assert send(native, "two", dedup_id="x") == (first, False)
    assert send(native, "one")[1]
    native.done("ack", first, queue="once")
    assert send(native, "two", dedup_id="x")[1]


def test_an_id_where_twins_do_not_matter(native: Native) -> None:
    assert [send(native, "one", "q", dedup_id="x")[1] for _ in range(2)] == [True, True]


@pytest.mark.parametrize("dedup_id", ["x", "i" * limits.DEDUP_ID_LENGTH, "Zürich 🐟", "x" * 32, "00"])
def test_ids_of_all_kinds(once: Native, dedup_id: str) -> None:
    assert send(once, "one", dedup_id=dedup_id)[1]
    assert not send(once, "two", dedup_id=dedup_id)[1]
