"""The ledger under `/v1`: pages, and numbered exports."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock import limits as bounds
from penstock.limits import Limits
from tests.faces.native.conftest import Native
from tests.faces.native.test_bulk import ARROW, table
from tests.servers import ThreadServer
from tests.talk import Reply

ROOT = "/v1/ledger/exports"


def finish(native: Native, *texts: str) -> None:
    native.send(*texts)
    native.done("ack", *[message["receipt"] for message in native.claim(limit=len(texts))])


def put(native: Native, number: int = 1, **asked: Any) -> Reply:
    return native.talk("PUT", f"{ROOT}/archive/{number}", asked)


def rows(native: Native, number: int = 1, query: str = "") -> list[dict[str, Any]]:
    reply = native.talk("GET", f"{ROOT}/archive/{number}/rows{query}")
    assert reply.status == 200, reply.body
    return reply.json["rows"]


def test_a_row_says_what_became_of_a_message(native: Native, server: ThreadServer) -> None:
    finish(native, "hello")
    [row] = native.talk("GET", "/v1/ledger").json["rows"]
    assert row["sent_at"] <= row["first_claimed_at"] == row["last_claimed_at"] <= row["finished_at"] <= server.clock()
    assert (row["queue"], row["outcome"], row["receives"], row["size"]) == ("q", "processed", 1, 5)
    assert len(bytes.fromhex(row["body_hash"])) >= 16
    assert "body" not in row
    assert "body_base64" not in row


def test_bodies_are_there_where_the_queue_keeps_them(native: Native) -> None:
    native.talk("PATCH", "/v1/queues/q", {"ledger": "bodies"})
    native.send("text", {"body_base64": "/w=="})
    native.done("ack", *[message["receipt"] for message in native.claim(limit=2)])
    text, binary = native.talk("GET", "/v1/ledger").json["rows"]
    assert (text["body"], binary["body_base64"]) == ("text", "/w==")


def test_pages_of_the_ledger(native: Native) -> None:
    finish(native, "1", "2", "3")
    first = native.talk("GET", "/v1/ledger?limit=2").json
    assert [len(first["rows"]), first["after"]] == [2, first["rows"][-1]["number"]]
    rest = native.talk("GET", f"/v1/ledger?limit=2&after={first['after']}", accept=ARROW)
    assert table(rest).num_rows == 1
    end = native.talk("GET", f"/v1/ledger?after={rest.headers['Penstock-After']}")
    assert end.json == {"rows": [], "after": None}


def test_the_ledger_by_queue_id_and_time(native: Native) -> None:
    finish(native, "1")
    native.create("other")
    [sent] = native.send("2", to="other")
    native.done("ack", *[message["receipt"] for message in native.claim("other")], queue="other")
    first, second = native.talk("GET", "/v1/ledger").json["rows"]
    assert native.talk("GET", "/v1/ledger?queue=other").json == {"rows": [second], "after": second["number"]}
    assert native.talk("GET", f"/v1/ledger?id={sent['id']}").json["rows"] == [second]
    assert native.talk("GET", f"/v1/ledger?before={first['finished_at']}").json == {"rows": [], "after": None}
    assert native.talk("GET", f"/v1/ledger?since={first['finished_at']}&queue=q").json["rows"] == [first]
    assert native.talk("GET", "/v1/ledger?since=yesterday").json["error"] == "since must be a number"


@pytest.mark.parametrize("limits", [Limits(export_count_rows=2)])
def test_an_export_is_counted_in_steps(native: Native) -> None:
    finish(native, *"abcde")
    assert (put(native).status, put(native).json["rows"]) == (201, 5)


def test_an_export_is_the_same_until_it_is_settled(native: Native) -> None:
    finish(native, "1", "2")
    first = put(native)
    finish(native, "3")
    again = put(native)
    assert (first.status, again.status) == (201, 200)
    assert first.json == again.json
    assert first.json["rows"] == len(rows(native)) == 2
    settled = native.talk("POST", f"{ROOT}/archive/1/settle")
    assert settled.json["settled_at"]
    assert native.talk("POST", f"{ROOT}/archive/1/settle").json == settled.json
    reply = native.talk("GET", f"{ROOT}/archive/1/rows")
    assert (reply.status, reply.json["how"]) == (410, "settled")
    assert put(native).status == 410
    assert put(native, 3).json["expected"] == 2
    assert put(native, 2).json["rows"] == 1


def test_slices_of_an_export_in_arrow(native: Native) -> None:
    finish(native, *map(str, range(5)))
    export = put(native, limit=4).json
    first = table(native.talk("GET", f"{ROOT}/archive/1/rows?limit=3", accept=ARROW))
    assert first.num_rows == 3
    assert first.schema.field("finished_at").type == pa.timestamp("ms", tz="UTC")
    last = first.column("number")[-1].as_py()
    rest = table(native.talk("GET", f"{ROOT}/archive/1/rows?after={last}", accept=ARROW))
    assert rest.column("number").to_pylist() == [export["through"]]
    assert table(native.talk("GET", f"{ROOT}/archive/1/rows?after={export['through']}", accept=ARROW)).num_rows == 0


def test_each_consumer_has_its_own_exports(native: Native) -> None:
    assert put(native).status == 204
    finish(native, "1")
    put(native)
    native.talk("PUT", f"{ROOT}/other/1", {})
    listed = native.talk("GET", ROOT).json["exports"]
    assert [(one["consumer"], one["number"]) for one in listed] == [("archive", 1), ("other", 1)]
    assert native.talk("GET", f"{ROOT}?consumer=other").json["exports"] == [native.talk("GET", f"{ROOT}/other/1").json]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("archive/0", {}),
        ("archive/x", {}),
        ("a%2Fb/1", {}),
        ("archive/1", {"limit": 0}),
        ("archive/1", {"limit": bounds.EXPORT_ROWS + 1}),
        ("archive/1", {"limits": 1}),
    ],
)
def test_what_is_refused(native: Native, path: str, asked: dict[str, Any]) -> None:
    assert native.talk("PUT", f"{ROOT}/{path}", asked).status == 400


def test_what_is_not_there(native: Native) -> None:
    for method, rest in (("GET", ""), ("GET", "/rows"), ("POST", "/settle")):
        assert native.talk(method, f"{ROOT}/archive/1{rest}").status == 404
