"""Messages under `/v1` by a filter and by their ids, and the latest rows of the ledger."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from penstock import limits
from tests.faces.native.conftest import Native, bodies


def filtered(native: Native, **query: Any) -> dict[str, Any]:
    reply = native.talk("GET", f"/v1/queues/q/messages?{urlencode(query)}")
    assert reply.status == 200, reply.body
    return reply.json


def ids_of(native: Native, queue: str = "q") -> list[str]:
    return [message["id"] for message in native.peek("?limit=100", queue)["messages"]]


def outcomes(native: Native, verb: str, *ids: str, queue: str = "q", **more: Any) -> list[str]:
    reply = native.talk("POST", f"/v1/queues/{queue}/messages/{verb}", {"ids": list(ids), **more})
    assert reply.status == 200, reply.body
    return reply.json["outcomes"]


def test_a_peek_with_a_filter(native: Native) -> None:
    native.send({"body": '{"n": 1}', "content_type": "application/json", "attributes": {"kind": "a"}})
    native.send('{"n": "1"}', {"body": "text", "attributes": {"kind": "b"}})
    native.claim(limit=1)
    for query, meant in (
        ({"text": "n"}, ['{"n": "1"}', '{"n": 1}']),
        ({"json_path": "$.n", "json_value": "1"}, ['{"n": 1}']),
        ({"json_path": "$.n", "json_value": '"1"'}, ['{"n": "1"}']),
        ({"state": "claimed"}, ['{"n": 1}']),
        ({"state": "ready", "attribute": "kind"}, ["text"]),
        ({"attribute": "kind", "attribute_value": "a"}, ['{"n": 1}']),
        ({"content_type": "Application/JSON"}, ['{"n": 1}']),
        ({"min_receives": 1, "max_receives": 1}, ['{"n": 1}']),
        ({"older_than_ms": 3_600_000}, []),
        ({"newer_than_ms": 3_600_000, "text": "x"}, ["text"]),
    ):
        page = filtered(native, **query)
        assert (bodies(page["messages"]), page["examined"], page["after"]) == (meant, 3, None), query
    [message] = filtered(native, state="claimed")["messages"]
    assert (message["state"], message["shipped"], message["claim"], message["receives"]) == ("claimed", False, 1, 1)
    assert message["last_claimed_at"] == message["first_claimed_at"]


def test_a_filter_goes_on_page_by_page(native: Native) -> None:
    native.send(*(str(number) for number in range(10)))
    page, seen = filtered(native, state="ready", limit=4), []
    while True:
        seen += bodies(page["messages"])
        if page["after"] is None:
            break
        page = filtered(native, state="ready", limit=4, after=page["after"])
    assert seen == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    "query",
    [
        {"text": ""},
        {"text": "x" * (limits.FILTER_TEXT_LENGTH + 1)},
        {"state": "lost"},
        {"attribute": ""},
        {"attribute_value": "x"},
        {"attribute": "x", "attribute_value": "x" * (limits.FILTER_TEXT_LENGTH + 1)},
        {"json_path": "$.a"},
        {"json_value": "1"},
        {"json_path": "a", "json_value": "1"},
        {"json_path": "$.a", "json_value": "[]"},
        {"json_path": "$.a", "json_value": str(2**63)},
        {"json_path": "$.a", "json_value": "x" * (limits.FILTER_TEXT_LENGTH + 1)},
        {"older_than_ms": "-1"},
        {"newer_than_ms": "soon"},
        {"min_receives": str(2**31)},
        {"max_receives": "x"},
        {"content_type": "x" * 256},
        {"text": "x", "limit": "0"},
        {"text": "x", "after": "nowhere"},
        {"txt": "x"},
    ],
)
def test_a_bad_filter(native: Native, query: dict[str, str]) -> None:
    reply = native.talk("GET", f"/v1/queues/q/messages?{urlencode(query)}")
    assert (reply.status, list(reply.json)) == (400, ["error"])


def test_a_message_by_its_id(native: Native) -> None:
    native.send("1")
    [one] = ids_of(native)
    shown = native.talk("GET", f"/v1/queues/q/messages/{one}").json
    assert (shown["id"], shown["body"], shown["state"], shown["last_claimed_at"]) == (one, "1", "ready", None)
    for path in (f"/v1/queues/q/messages/{one[:-1]}f", "/v1/queues/q/messages/x", f"/v1/queues/none/messages/{one}"):
        assert native.talk("GET", path).status == 404


def test_messages_are_deleted_released_and_moved(native: Native) -> None:
    native.create("there")
    native.send("1", "2", "3")
    one, two, three = ids_of(native)
    native.claim(limit=1)
    assert outcomes(native, "release", one, "x") == ["done", "missing"]
    assert bodies(native.claim(limit=1)) == ["1"]
    assert outcomes(native, "delete", one, one, "x") == ["done", "missing", "missing"]
    assert outcomes(native, "move", two, target="there") == ["done"]
    assert outcomes(native, "move", three) == ["homeless"]
    assert (ids_of(native), ids_of(native, "there")) == ([three], [two])
    assert outcomes(native, "move", two, queue="there", target="q", as_new=True) == ["done"]
    assert two not in ids_of(native)


@pytest.mark.parametrize("verb", ["delete", "release", "move"])
@pytest.mark.parametrize(
    "asked", [{}, {"ids": []}, {"ids": ["x"] * (limits.NAMED_LIMIT + 1)}, {"ids": [1]}, {"ids": ["x"], "other": 1}]
)
def test_bad_ids(native: Native, verb: str, asked: dict[str, Any]) -> None:
    reply = native.talk("POST", f"/v1/queues/q/messages/{verb}", asked)
    assert (reply.status, list(reply.json)) == (400, ["error"])


def test_what_is_not_there(native: Native) -> None:
    for verb, more in (("delete", {}), ("release", {}), ("move", {"target": "q"})):
        reply = native.talk("POST", f"/v1/queues/none/messages/{verb}", {"ids": ["x"], **more})
        assert reply.status == 404
    assert native.talk("POST", "/v1/queues/q/messages/move", {"ids": ["x"], "target": "none"}).status == 404
    assert native.talk("POST", "/v1/queues/q/messages/move", {"ids": ["x"], "target": "q"}).status == 400


def test_one_message_is_sent_in_the_place_of_another(native: Native) -> None:
    native.create("there")
    native.send("wrong")
    [old] = ids_of(native)
    asked = {"message": {"body": "right", "attributes": {"kind": "test"}}}
    resent = native.talk("POST", f"/v1/queues/q/messages/{old}/resend", asked).json
    assert (resent["outcome"], [resent["id"]]) == ("done", ids_of(native))
    again = native.talk("POST", f"/v1/queues/q/messages/{old}/resend", asked).json
    assert again == {"outcome": "missing", "id": None}
    moved = native.talk("POST", f"/v1/queues/q/messages/{resent['id']}/resend", {**asked, "target": "there"}).json
    assert (moved["outcome"], ids_of(native), ids_of(native, "there")) == ("done", [], [moved["id"]])


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"message": {}},
        {"message": {"body": "x", "body_base64": "eA=="}},
        {"message": {"body": "x", "group": ""}},
        {"message": {"body": "x"}, "target": 1},
        {"message": {"body": "x"}, "other": 1},
    ],
)
def test_a_bad_message_to_send_again(native: Native, asked: dict[str, Any]) -> None:
    native.send("1")
    [one] = ids_of(native)
    reply = native.talk("POST", f"/v1/queues/q/messages/{one}/resend", asked)
    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert ids_of(native) == [one]


def test_the_latest_rows_of_the_ledger(native: Native) -> None:
    native.send("1", "2", "3")
    one, two, three = ids_of(native)
    native.done("ack", one)
    outcomes(native, "delete", two)
    native.done("ack", three)
    page = native.talk("GET", "/v1/ledger?order=newest&queue=q").json
    assert ([row["id"] for row in page["rows"]], page["examined"], page["below"]) == ([three, two, one], 3, None)
    page = native.talk("GET", "/v1/ledger?order=newest&queue=q&outcome=purged,failed").json
    assert [row["id"] for row in page["rows"]] == [two]
    page = native.talk("GET", "/v1/ledger?order=newest&limit=1").json
    assert [row["id"] for row in page["rows"]] == [three]
    page = native.talk("GET", f"/v1/ledger?order=newest&limit=1&below={page['below']}").json
    assert [row["id"] for row in page["rows"]] == [two]


@pytest.mark.parametrize(
    "query",
    [
        "order=upward",
        "outcome=failed",
        "below=5",
        "order=newest&after=5",
        "order=newest&outcome=lost",
        "order=newest&outcome=",
        "order=newest&below=0",
        "order=newest&below=x",
        "order=newest&limit=0",
    ],
)
def test_a_bad_question_to_the_ledger(native: Native, query: str) -> None:
    reply = native.talk("GET", f"/v1/ledger?{query}")
    assert (reply.status, list(reply.json)) == (400, ["error"])
