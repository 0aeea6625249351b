"""Leases under `/v1`: one holder at a time."""

from __future__ import annotations

import pytest

from tests.faces.native.conftest import Native
from tests.servers import ThreadServer
from tests.talk import Reply

ONE = "/v1/queues/q/leases/drain"


def take(native: Native, holder: str = "me", hold_ms: int = 60_000) -> Reply:
    return native.talk("PUT", ONE, {"holder": holder, "hold_ms": hold_ms})


def test_take_show_and_drop(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    now = server.clock()
    taken = take(native)
    lease = {"queue": "q", "name": "drain", "holder": "me", "taken_at": now, "until": now + 60_000}
    assert (taken.status, taken.json) == (200, lease)
    assert native.talk("GET", ONE).json == lease
    dropped = native.talk("DELETE", f"{ONE}?holder=me")
    assert (dropped.status, dropped.body) == (204, b"")
    missing = native.talk("GET", ONE)
    assert (missing.status, missing.json) == (404, {"error": "no one has the lease 'drain'"})


def test_another_holder_is_told_who_has_it(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    until = take(native).json["until"]
    refused = take(native, "you")
    assert (refused.status, refused.json) == (
        409,
        {"error": "the lease 'drain' is held by 'me'", "holder": "me", "until": until},
    )
    server.clock.advance(60)
    assert native.talk("GET", ONE).status == 404
    assert take(native, "you").json["holder"] == "you"


def test_taken_again_it_lasts_longer(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    first = take(native).json
    server.clock.advance(40)
    again = take(native).json
    assert again == {**first, "until": first["until"] + 40_000}


def test_dropping_what_one_does_not_have_is_no_error(native: Native) -> None:
    take(native)
    for path in (f"{ONE}?holder=you", f"{ONE}2?holder=me", "/v1/queues/none/leases/drain?holder=me"):
        assert native.talk("DELETE", path).status == 204
    assert native.talk("GET", ONE).json["holder"] == "me"


def test_a_holder_of_any_letters(native: Native) -> None:
    assert take(native, "größe & 🚰").json["holder"] == "größe & 🚰"
    assert native.talk("DELETE", f"{ONE}?holder=gr%C3%B6%C3%9Fe%20%26%20%F0%9F%9A%B0").status == 204
    assert native.talk("GET", ONE).status == 404


def test_a_queue_that_is_not_there(native: Native) -> None:
    path = "/v1/queues/none/leases/drain"
    for reply in (native.talk("GET", path), native.talk("PUT", path, {"holder": "me", "hold_ms": 1_000})):
        assert (reply.status, reply.json) == (404, {"error": "queue 'none' does not exist"})


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "the body does not parse: Object missing required field `holder`"),
        ({"holder": "me"}, "the body does not parse: Object missing required field `hold_ms`"),
        ({"holder": "me", "hold_ms": 999}, "hold_ms must be between 1000 and 2147483647000"),
        ({"holder": "", "hold_ms": 1_000}, "holder has 1 to 200 characters"),
        ({"holder": "x" * 201, "hold_ms": 1_000}, "holder has 1 to 200 characters"),
        ({"holder": "a\nb", "hold_ms": 1_000}, "holder has 1 to 200 printable characters"),
    ],
)
def test_what_is_refused(native: Native, asked: dict[str, object], why: str) -> None:
    refused = native.talk("PUT", ONE, asked)
    assert (refused.status, refused.json) == (400, {"error": why})
    assert native.talk("GET", ONE).status == 404


def test_names_are_those_of_queues(native: Native) -> None:
    refused = native.talk("PUT", "/v1/queues/q/leases/a%20b", {"holder": "me", "hold_ms": 1_000})
    assert (refused.status, refused.json) == (400, {"error": "a lease is called by the same rules as a queue"})


@pytest.mark.parametrize("query", ["", "?holder=", "?holder=%0A", "?other=me"])
def test_a_drop_says_whose_it_is(native: Native, query: str) -> None:
    take(native)
    assert native.talk("DELETE", f"{ONE}{query}").status == 400
    assert native.talk("GET", ONE).status == 200
