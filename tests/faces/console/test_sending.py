"""Sending from the console: checked as a whole, and stored once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape

import pytest

from penstock.errors import StoreUnavailable
from penstock.faces.console import sending
from penstock.model import SentOnce
from penstock.pending import rejected
from tests.faces.console.conftest import Person
from tests.faces.console.test_messages import HOSTILE, assert_harmless
from tests.servers import ThreadServer
from tests.talk import Reply, Talk

SEND = "/console/queues/orders/send"


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        assert talk("PUT", "/v1/queues/orders", {}).status == 201
        yield talk


def submit(person: Person, way: str, *, once: str | None = None, file: bytes | None = None, **fields: str) -> Reply:
    """As a browser does it."""
    page = person.get(f"{SEND}?way={way}").body.decode()
    key = once or re.search(r'name="once" value="([^"]*)"', page)[1]
    parts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value.replace("\n", "\r\n").encode()
        for name, value in {"csrf": person.token, "way": way, "once": key, **fields}.items()
    ]
    if file is not None:
        parts.append(b'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n' + file)
    body = b"".join(b"--x--y\r\n" + part + b"\r\n" for part in parts) + b"--x--y--\r\n"
    return person.raw(SEND, body, "multipart/form-data; boundary=x--y")


def messages(talk: Talk) -> list[dict]:
    return talk("GET", "/v1/queues/orders/messages?limit=10000").json["messages"]


def error(reply: Reply, field: str) -> str:
    return unescape(re.search(rf'id="field-{field}-error"[^>]*>([^<]*)', reply.body.decode())[1])


class TestOne:
    def test_it_is_sent_with_all_that_the_form_says(self, talk: Talk, person: Person) -> None:
        fields = {"content_type": "application/json", "attributes": '{"kind": "<b>"}', "group": "g 1", "delay": "1h30m"}
        reply = submit(person, "one", body='{"a":\n1}', **fields)
        assert reply.headers["Location"] == "/console/queues/orders/messages"
        [message] = messages(talk)
        assert message["body"] == '{"a":\n1}'
        assert (message["content_type"], message["group"]) == ("application/json", "g 1")
        assert message["attributes"] == {"kind": "<b>"}
        assert message["ready_at"] - message["sent_at"] == 5_400_000
        [last, *_] = talk("GET", "/v1/actions").json["actions"]
        assert (last["what"], last["queue"], last["count"], last["via"]) == ("messages.send", "orders", 1, "console")

    def test_the_same_form_stores_nothing_twice(self, talk: Talk, person: Person) -> None:
        for _ in range(2):
            assert submit(person, "one", once="k" * 20, body="x").status == 303
        assert len(messages(talk)) == 1
        assert b"nothing was stored a second time" in person.get("/console/queues/orders/messages").body
        sends = [one for one in talk("GET", "/v1/actions").json["actions"] if one["what"] == "messages.send"]
        assert len(sends) == 1
        # With something else in it, it asks again, and has a key of its own then.
        reply = submit(person, "one", once="k" * 20, body="y")
        assert reply.status == 422
        assert b"This form was sent before" in reply.body
        assert "k" * 20 not in reply.body.decode()
        assert len(messages(talk)) == 1

    def test_bytes_are_written_in_base64(self, talk: Talk, person: Person) -> None:
        submit(person, "one", body="/wA=\n", written="base64")
        assert messages(talk)[0]["body_base64"] == "/wA="

    @pytest.mark.parametrize(
        ("fields", "field", "why"),
        [
            ({"body": "{", "content_type": "application/json; charset=utf-8"}, "body", "not JSON"),
            ({"body": "[" * 5_000, "content_type": "a/b+json"}, "body", "not JSON"),
            ({"body": "x" * (1024 * 1024 + 1)}, "body", "1048576"),
            ({"body": "=", "written": "base64"}, "body", "not base64"),
            ({"attributes": "x"}, "attributes", "JSON object"),
            ({"delay": "9999999999d"}, "delay", "between 0 and"),
            ({"group": "a\tb"}, "group", "printable"),
            ({"dedup_id": "d" * 129}, "dedup_id", "1 to 128"),
        ],
    )
    def test_what_is_wrong_is_said_beside_its_field(
        self, talk: Talk, person: Person, fields: dict[str, str], field: str, why: str
    ) -> None:
        reply = submit(person, "one", **{"body": "x", **fields})
        assert reply.status == 422
        assert why in error(reply, field)
        assert messages(talk) == []

    def test_twins_are_told(self, talk: Talk, person: Person) -> None:
        talk("PATCH", "/v1/queues/orders", {"dedup": "send"})
        for _ in range(2):
            submit(person, "one", body="x")
        assert b"Sent 0 messages; 1 not stored, as twins of others." in person.get(SEND).body


class TestLines:
    def test_each_line_is_a_body(self, talk: Talk, person: Person) -> None:
        submit(person, "lines", each="body", lines='{"a": 1}\n\n  "ü"  \n7\n')
        assert [one["body"] for one in messages(talk)] == ['{"a": 1}', '"ü"', "7"]
        assert {one["content_type"] for one in messages(talk)} == {"application/json"}

    def test_or_a_message_of_the_native_api(self, talk: Talk, person: Person) -> None:
        lines = '{"body": "one", "attributes": {"a": "b"}}\n{"body_base64": "/w==", "delay_ms": 1000}'
        for way, more in (("lines", {"lines": lines}), ("file", {"file": lines.encode()})):
            assert submit(person, way, each="message", **more).status == 303
        assert len(messages(talk)) == 4
        assert messages(talk)[0]["attributes"] == {"a": "b"}

    @pytest.mark.parametrize(
        ("each", "lines", "why"),
        [
            ("body", "1\n{\n2\n[", "line 2: this is not JSON"),
            ("body", "1\n\n\n<script>alert(1)</script>", "line 4: this is not JSON"),
            ("body", "1\n" + "[" * 10_000, "line 2: this is not JSON"),
            ("message", '{"body": "a"}\n{"body": 1}', "line 2: it does not parse: Expected `str"),
            ("message", '{"body": "a"}\n{}', "line 2: a message has either"),
            ("message", '{"body": "a"}\n{"body": "a", "x": 1}', "line 2: it does not parse"),
            ("message", '{"body": "a"}\n{"body": "a", "delay_ms": -1}', "line 2: delay_ms must be between"),
            ("body", " \n\n", "there is no message in it"),
            ("body", "1\n" * 100_001, "line 100001: at most 100,000"),
        ],
    )
    def test_one_bad_line_and_nothing_is_sent(
        self, talk: Talk, person: Person, each: str, lines: str, why: str
    ) -> None:
        reply = submit(person, "lines", each=each, lines=lines)
        assert reply.status == 422
        assert error(reply, "lines").startswith(why)
        assert_harmless(reply.body)
        reply = submit(person, "file", each=each, file=lines.encode())
        assert reply.status == 422
        assert error(reply, "file").startswith(why)
        assert messages(talk) == []

    def test_many_go_in_batches_and_none_twice(
        self, talk: Talk, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store fails in the middle; the form is sent again."""
        lines = "\n".join(str(number) for number in range(25_000))
        whole, sizes = sending._Sending._in_batches, []

        def failing(
            self: sending._Sending, queue: str, batches: list, key: str, index: int, so_far: SentOnce
        ) -> object:
            sizes.append(len(batches[index]))
            if index == 2:
                return rejected(StoreUnavailable("the database does not answer"))
            return whole(self, queue, batches, key, index, so_far)

        monkeypatch.setattr(sending._Sending, "_in_batches", failing)
        reply = submit(person, "lines", each="body", lines=lines, once="k" * 20)
        assert reply.status == 503
        assert b"what was stored already is not stored twice" in reply.body
        assert "k" * 20 in reply.body.decode()
        assert lines in reply.body.decode().replace("\r", ""), "what was written is kept"
        assert talk("GET", "/v1/queues/orders").json["count"]["total"] == 20_000
        monkeypatch.undo()
        assert submit(person, "lines", each="body", lines=lines, once="k" * 20).status == 303
        assert talk("GET", "/v1/queues/orders").json["count"]["total"] == 25_000
        assert sizes == [10_000, 10_000, 5_000]


class TestFile:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_file_is_one_body_as_it_is(self, talk: Talk, person: Person, name: str) -> None:
        assert submit(person, "file", each="whole", file=HOSTILE[name], content_type="x/y").status == 303
        [message] = messages(talk)
        assert message["content_type"] == "x/y"
        assert person.get(f"/console/queues/orders/messages/{message['id']}/body").body == HOSTILE[name]

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({}, "choose a file"),
            ({"file": b"x" * (1024 * 1024 + 1)}, "a message is at most"),
            ({"file": b"{", "content_type": "application/json"}, "not JSON"),
            ({"file": b"{", "content_type": "\x01"}, "printable"),
        ],
    )
    def test_what_is_wrong_is_said_beside_it(self, talk: Talk, person: Person, fields: dict, why: str) -> None:
        reply = submit(person, "file", each="whole", **fields)
        assert reply.status == 422
        assert why in error(reply, "file")
        assert messages(talk) == []


@pytest.mark.parametrize("fields", [{"way": "fly"}, {"way": "one", "once": "x"}, {"way": "lines", "each": "x"}])
def test_a_form_that_is_no_longer_ours_is_refused(talk: Talk, person: Person, fields: dict[str, str]) -> None:
    person.get(SEND)
    assert person.post(SEND, {"once": "k" * 20, "body": "x", "lines": "1", **fields}).status in (400, 422)
    assert messages(talk) == []


def test_one_that_is_too_long_is_refused(talk: Talk, person: Person) -> None:
    assert submit(person, "file", each="body", file=b"1\n" * 8 * 1024 * 1024 + b"1").status == 413
    assert messages(talk) == []


def test_a_queue_that_is_not_there_has_a_page(person: Person) -> None:
    assert person.get("/console/queues/none/send").status == 404


def test_lines_of_a_browser_are_bodies_of_plain_lines(talk: Talk, person: Person) -> None:
    submit(person, "lines", each="body", lines=json.dumps({"a": "b"}) + "\r\n" + "2")
    assert [one["body"] for one in messages(talk)] == ['{"a": "b"}', "2"]
