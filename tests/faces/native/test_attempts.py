"""Claims that are repeated by their attempt under `/v1`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from penstock import limits
from penstock.timings import Timings
from tests.faces.native.conftest import STORES, Native, bodies
from tests.servers import ThreadServer
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("store", STORES)


def receipts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["receipt"] for message in messages]


def test_the_same_attempt_gets_the_same_messages_held_anew(native: Native, server: ThreadServer) -> None:
    native.send("1", "2", "3")
    first = native.claim(limit=2, attempt="a", hold_ms=600_000)
    server.clock.advance(20)
    again = native.claim(limit=2, attempt="a", hold_ms=600_000)
    assert receipts(again) == receipts(first)
    assert [message["receives"] for message in again] == [1, 1]
    assert all(new["ready_at"] >= old["ready_at"] + 20_000 for new, old in zip(again, first, strict=True))
    assert bodies(native.claim(limit=2, attempt="b")) == ["3"]
    assert native.done("ack", *receipts(first)) == [True, True]


@pytest.mark.parametrize("verb", ["ack", "release"])
def test_one_that_does_not_hold_all_any_more_claims_anew(native: Native, verb: str) -> None:
    native.send("1", "2", "3")
    first = native.claim(limit=2, attempt="a")
    native.done(verb, first[0]["receipt"])
    again = native.claim(limit=2, attempt="a")
    assert bodies(again) == (["3"] if verb == "ack" else ["1", "3"])


def test_one_whose_claim_has_run_out_claims_anew(native: Native, server: ThreadServer) -> None:
    native.send("1")
    [first] = native.claim(attempt="a", hold_ms=1_000)
    server.clock.advance(2)
    [again] = native.claim(attempt="a", hold_ms=1_000)
    assert (again["id"], again["receives"]) == (first["id"], 2)
    assert again["receipt"] != first["receipt"]


def test_it_is_remembered_for_five_minutes(native: Native, server: ThreadServer) -> None:
    native.send("1", "2")
    [first] = native.claim(attempt="a", hold_ms=3_600_000)
    server.clock.advance(301)
    assert bodies(native.claim(attempt="a")) == ["2"]
    assert native.done("ack", first["receipt"]) == [True]


def test_an_empty_result_is_not_remembered(native: Native) -> None:
    assert native.claim(attempt="a") == []
    native.send("1")
    assert bodies(native.claim(attempt="a")) == ["1"]


# What the server writes of itself, it writes later.
@pytest.mark.parametrize("timings", [Timings(sweep_s=3600, moves_s=3600, keys_s=3600, figures_s=3600)])
def test_one_that_finds_nothing_writes_nothing(native: Native, server: ThreadServer, store: str) -> None:
    """Idle workers ask so all the time."""
    if store == "memory":
        return
    before = changes(server)
    for attempt in ("a", "b", "b"):
        assert native.claim(attempt=attempt) == []
    assert changes(server) == before
    native.send("1")
    native.claim(attempt="c")
    assert changes(server) > before


def changes(server: ThreadServer) -> int:
    """How many rows the server has ever written to SQLite, asked on its own thread."""

    async def ask() -> int:
        with server.store.raw() as raw:
            [(count,)] = raw.rows("SELECT total_changes()")
            return count

    return asyncio.run_coroutine_threadsafe(ask(), server._loop).result()


def test_an_attempt_belongs_to_its_queue(native: Native) -> None:
    native.create("other")
    native.send("1")
    native.send("2", to="other")
    assert bodies(native.claim(attempt="a") + native.claim("other", attempt="a")) == ["1", "2"]


def test_it_waits_as_any_claim(native: Native, server: ThreadServer) -> None:
    found: list[dict[str, Any]] = []

    def wait() -> None:
        with server.talk() as talk:
            found.extend(Native(talk).claim(wait_ms=60_000, attempt="a"))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: server.waiting_claims() == ["q"])
    native.send("1")
    waiting.join()
    assert receipts(native.claim(attempt="a")) == receipts(found)


def test_in_a_queue_of_groups_a_lost_answer_does_not_hold_the_group_up(native: Native) -> None:
    native.create("line", groups="fifo")
    native.send({"body": "1", "group": "a"}, {"body": "2", "group": "a"}, to="line")
    lost = native.claim("line", attempt="a")
    assert native.claim("line", attempt="b") == []
    assert receipts(native.claim("line", attempt="a")) == receipts(lost)


@pytest.mark.parametrize("attempt", ["x", "a" * limits.ATTEMPT_LENGTH, "Zürich 🐟/1", " "])
def test_attempts_of_all_kinds(native: Native, attempt: str) -> None:
    native.send("1", "2")
    assert receipts(native.claim(attempt=attempt)) == receipts(native.claim(attempt=attempt))
