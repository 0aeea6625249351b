"""The document's dialogues about queues, over a real socket."""

from __future__ import annotations

import json

import pytest

from penstock.timings import Timings
from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Talk

INT32_MAX = 2**31 - 1


def test_create_answers_201_with_all_settings(talk: Talk) -> None:
    talk("PUT", "/queues/dead", PLAIN)
    asked = {
        "redrive_policy": {"max_receives": 3, "dead_letter_queue": "dead"},
        "retention_timeout": 3600,
        "visibility_timeout": 45,
        "message_delay": 5,
        "message_deduplication": True,
    }
    reply = talk("PUT", "/queues/orders", asked)
    assert reply.status == 201
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json == {"name": "orders", **asked}


def test_redrive_policy_and_delay_may_be_missing_or_null_and_unknown_keys_are_ignored(talk: Talk) -> None:
    expected = {**PLAIN, "redrive_policy": None, "message_delay": 0}
    assert talk("PUT", "/queues/a", PLAIN).json == {"name": "a", **expected}
    asked = {**PLAIN, "redrive_policy": None, "message_delay": None, "colour": "green"}
    assert talk("PUT", "/queues/b", asked).json == {"name": "b", **expected}


def test_create_of_an_existing_queue_answers_409_before_the_body_is_read(talk: Talk, queue: str) -> None:
    assert talk("PUT", "/queues/q", PLAIN).status == 409
    assert talk("PUT", "/queues/q", b"not json").status == 409


def test_update_replaces_all_settings(talk: Talk, queue: str) -> None:
    changed = {**PLAIN, "visibility_timeout": 7, "message_deduplication": True}
    reply = talk("POST", "/queues/q", changed)
    assert reply.status == 200
    assert reply.json == {"name": "q", **changed, "redrive_policy": None, "message_delay": 0}
    described = talk("GET", "/queues/q").json
    assert described["visibility_timeout"] == 7
    assert described["message_deduplication"] is True


def test_update_of_an_unknown_queue_answers_404_before_the_body_is_read(talk: Talk) -> None:
    assert talk("POST", "/queues/nope", b"not json").status == 404


BAD_CONFIGS = [
    b"",
    b"not json",
    b'{"retention_timeout": 1',
    b"[]",
    b"null",
    b"\xff\xfe",
    json.dumps({key: value for key, value in PLAIN.items() if key != "retention_timeout"}).encode(),
    json.dumps({key: value for key, value in PLAIN.items() if key != "visibility_timeout"}).encode(),
    json.dumps({key: value for key, value in PLAIN.items() if key != "message_deduplication"}).encode(),
    *(
        json.dumps({**PLAIN, **change}).encode()
        for change in (
            {"retention_timeout": 0},
            {"retention_timeout": -1},
            {"retention_timeout": INT32_MAX + 1},
            {"retention_timeout": 10**30},
            {"retention_timeout": "60"},
            {"retention_timeout": True},
            {"retention_timeout": 1.5},
            {"retention_timeout": None},
            {"visibility_timeout": -1},
            {"visibility_timeout": INT32_MAX + 1},
            {"message_delay": -1},
            {"message_delay": INT32_MAX + 1},
            {"message_delay": "soon"},
            {"message_deduplication": 1},
            {"message_deduplication": "yes"},
            {"redrive_policy": {"max_receives": 1, "dead_letter_queue": "nope"}},
            {"redrive_policy": {"max_receives": 0, "dead_letter_queue": "q"}},
            {"redrive_policy": {"max_receives": INT32_MAX + 1, "dead_letter_queue": "q"}},
            {"redrive_policy": {"max_receives": 1}},
            {"redrive_policy": {"dead_letter_queue": "q"}},
            {"redrive_policy": "q"},
        )
    ),
]


@pytest.mark.parametrize("body", BAD_CONFIGS)
def test_a_bad_config_answers_400_with_an_error_and_changes_nothing(talk: Talk, queue: str, body: bytes) -> None:
    before = talk("GET", "/queues/q").json
    for method, name in (("PUT", "new"), ("POST", "q")):
        reply = talk(method, f"/queues/{name}", body)
        assert reply.status == 400
        assert reply.json["error"]
    assert talk("GET", "/queues/new").status == 404
    assert talk("GET", "/queues/q").json == before


def test_the_largest_and_smallest_values_are_taken(talk: Talk, queue: str) -> None:
    large = {
        "redrive_policy": {"max_receives": INT32_MAX, "dead_letter_queue": "q"},
        "retention_timeout": INT32_MAX,
        "visibility_timeout": INT32_MAX,
        "message_delay": INT32_MAX,
        "message_deduplication": False,
    }
    small = {**large, "retention_timeout": 1, "visibility_timeout": 0, "message_delay": 0}
    small["redrive_policy"] = {"max_receives": 1, "dead_letter_queue": "q"}
    assert talk("PUT", "/queues/large", large).json == {"name": "large", **large}
    assert talk("PUT", "/queues/small", small).json == {"name": "small", **small}


def test_delete_answers_the_queue_as_it_was_and_takes_its_messages(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    reply = talk("DELETE", "/queues/q")
    assert reply.status == 200
    assert reply.json == {"name": "q", **PLAIN, "redrive_policy": None, "message_delay": 0}
    assert talk("DELETE", "/queues/q").status == 404
    assert talk("GET", "/messages/q").status == 404
    talk("PUT", "/queues/q", PLAIN)
    assert talk("GET", "/messages/q").status == 204


def test_a_message_of_a_deleted_queue_is_gone(talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"x")
    message_id = talk("GET", "/messages/q").headers["X-MQS-MESSAGE-ID"]
    talk("DELETE", "/queues/q")
    assert talk("DELETE", f"/messages/{message_id}").status == 404


def test_deleting_a_dead_letter_queue_ends_the_redrive_of_others(talk: Talk, queue: str) -> None:
    policy = {"max_receives": 1, "dead_letter_queue": "q"}
    talk("PUT", "/queues/source", {**PLAIN, "redrive_policy": policy})
    talk("DELETE", "/queues/q")
    assert talk("GET", "/queues/source").json["redrive_policy"] is None


def test_list_is_in_creation_order_with_offset_and_limit(talk: Talk) -> None:
    names = ["zebra", "apple", "mango", "kiwi"]
    for name in names:
        talk("PUT", f"/queues/{name}", PLAIN)

    def listed(query: str) -> list[str]:
        page = talk("GET", f"/queues{query}").json
        assert page["total"] == 4
        return [entry["name"] for entry in page["queues"]]

    assert listed("") == names
    assert listed("?offset=1&limit=2") == ["apple", "mango"]
    assert listed("?limit=0") == []
    assert listed("?offset=99") == []
    assert "status" not in talk("GET", "/queues").json["queues"][0]


@pytest.mark.parametrize("query", ["offset=a", "limit=", "limit=-1", "offset=1.5", "limit=٣", "limit=1_0", "limit=+1"])
def test_list_wants_numbers(talk: Talk, query: str) -> None:
    from urllib.parse import quote

    reply = talk("GET", f"/queues?{quote(query, safe='=')}")
    assert reply.status == 400
    assert reply.json["error"]


def test_describe_counts_messages_and_their_age(server: ThreadServer, talk: Talk, queue: str) -> None:
    server.clock.stop()
    empty = {"messages": 0, "visible_messages": 0, "oldest_message_age": 0}
    assert talk("GET", "/queues/q").json["status"] == empty
    for body in (b"a", b"b", b"c"):
        talk("POST", "/messages/q", body)
    talk("GET", "/messages/q")
    server.clock.advance(20)
    assert talk("GET", "/queues/q").json["status"] == {
        "messages": 3,
        "visible_messages": 2,
        "oldest_message_age": 20,
    }
    assert talk("GET", "/queues/nope").status == 404


HOSTILE = [
    "..",
    ".",
    "%2e%2e",
    "a%2Fb",
    "..%2F..%2Fetc%2Fpasswd",
    "a%00b",
    "x" * 256,
    "x" * 300,
    "%C3%A9t%C3%A9",
    "a%20b",
    "a%0Ab",
    "%F0%9F%90%9F",
    "a'--",
    "dedupq%2Fx",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_and_make_no_queue(talk: Talk, name: str) -> None:
    reply = talk("PUT", f"/queues/{name}", PLAIN)
    assert reply.status == 400
    assert "name" in reply.json["error"]
    for method, path in (
        ("GET", f"/queues/{name}"),
        ("POST", f"/queues/{name}"),
        ("DELETE", f"/queues/{name}"),
        ("POST", f"/messages/{name}"),
        ("GET", f"/messages/{name}"),
    ):
        assert talk(method, path, b"{}" if method == "POST" else None).status == 404
    assert talk("GET", "/queues").json["total"] == 0


@pytest.mark.parametrize("path", ["/queues/a/b", "/queues/", "/queue", "/messages", "/messages/", "/messages/a/b"])
def test_unknown_routes_answer_404(talk: Talk, path: str) -> None:
    assert talk("GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/queues/q"),
        ("POST", "/queues"),
        ("PUT", "/messages/q"),
        ("HEAD", "/messages/q"),
        ("POST", "/health"),
    ],
)
def test_known_routes_with_another_method_answer_405(talk: Talk, queue: str, method: str, path: str) -> None:
    reply = talk(method, path, b"{}" if method != "HEAD" else None)
    assert reply.status == 405
    assert reply.headers["Allow"]


def test_a_name_at_the_length_limit_works(talk: Talk) -> None:
    name = "x" * 255
    assert talk("PUT", f"/queues/{name}", PLAIN).status == 201
    assert talk("POST", f"/messages/{name}", b"body").status == 201
    assert talk("GET", f"/messages/{name}").body == b"body"


def test_a_config_that_is_too_large_answers_413(talk: Talk) -> None:
    body = b'{"padding": "' + b"x" * 70_000 + b'"}'
    assert talk("PUT", "/queues/q", body).status == 413


@pytest.mark.parametrize("timings", [Timings(probe_s=60)])
def test_health_is_green(talk: Talk) -> None:
    reply = talk("GET", "/health")
    assert (reply.status, reply.body) == (200, b"green")
