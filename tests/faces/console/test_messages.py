"""Messages in the console: looked at and never consumed, whatever they hold."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode

import pytest

from penstock.faces.console.bodies import BodyForm, preview, view, visible
from tests.faces.console.conftest import Person
from tests.keys.conftest import KeyStore
from tests.lacking import not_installed
from tests.servers import ThreadServer
from tests.talk import Talk

LIST = "/console/queues/orders/messages"
HOSTILE = {
    "script": b"<script>document.title='owned'</script><img src=x onerror=alert(1)>",
    "long": b"x" * 1024 * 1024,
    "long-script": b"<script>" * (128 * 1024),
    "binary": bytes(range(256)) * 64,
    "turned": "abc\u202egnp.exe \u2066\u200f\ufeff".encode(),
    "nul": b"a\x00b\x01\x1b[31m\x7f\x85",
    "no-utf-8": b"\xff\xfe\xc3(",
    "half": b"\xed\xa0\x80",
    "deep": b"[" * 64 + b"1" + b"]" * 64,
    "abyss": b"[" * 100_000,
    "brackets": b"[" * 900 + b"1," * 400_000 + b"1" + b"]" * 900,
    "template": b"{{ 7*7 }}{% raw %}{# x #}",
    "lines": b"\n" * 300_000,
    "crlf": b"a\r\nb\rc",
    "empty": b"",
    "json-in-script": b'{"a": "</script><script>alert(1)</script>"}',
}


def send(talk: Talk, body: bytes, queue: str = "orders", **more: object) -> str:
    message = {"body_base64": base64.b64encode(body).decode(), **more}
    reply = talk("POST", f"/v1/queues/{queue}/messages", {"messages": [message]})
    assert reply.status == 201, reply.body
    return reply.json["sent"][0]["id"]


@pytest.fixture
def talk(server: ThreadServer) -> Talk:
    with server.talk() as talk:
        for name in ("orders-dead", "orders"):
            talk("PUT", f"/v1/queues/{name}", {})
        yield talk


def ids(page: bytes) -> list[str]:
    return re.findall(r'title="([0-9a-f-]{36})"', page.decode())


def shown(page: bytes) -> str:
    """The body as a reader sees it."""
    found = re.search(r'<pre id="body"[^>]*><bdi>(.*?)</bdi></pre>', page.decode(), re.DOTALL)
    assert found is not None
    return unescape(found[1])


class TestTable:
    def test_nothing_is_consumed(self, talk: Talk, person: Person) -> None:
        sent = [send(talk, b"m%d" % number) for number in range(3)]
        for _ in range(3):
            assert ids(person.get(LIST).body) == sent
        assert talk("GET", "/v1/queues/orders").json["count"]["ready"] == 3
        messages = talk("GET", "/v1/queues/orders/messages").json["messages"]
        assert [one["receives"] for one in messages] == [0, 0, 0]

    def test_pages_show_every_message_once(self, talk: Talk, person: Person) -> None:
        sent = [send(talk, b"m%d" % number) for number in range(120)]
        seen, path = [], LIST
        while path:
            page = person.get(path).body.decode()
            seen += ids(page.encode())
            following = re.search(r'rel="next" href="([^"]*)"', page)
            path = unescape(following[1]) if following else ""
        assert seen == sent
        assert "Showing 101 to 120 of 120." in page

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"text": "needle"}, {"text"}),
            ({"path": "$.order.id", "value": "7"}, {"number"}),
            ({"path": "$.order.id", "value": '"7"'}, {"word"}),
            ({"path": "$.order.id", "value": "seven"}, {"seven"}),
            ({"path": "$.order.id", "value": "true"}, {"true"}),
            ({"path": "$.order.id", "value": "null"}, {"null"}),
            ({"attribute": "kind"}, {"text", "number"}),
            ({"attribute": "kind", "attribute_value": "a b"}, {"text"}),
            ({"state": "delayed"}, {"delayed"}),
            ({"state": "claimed"}, {"claimed"}),
            ({"min_receives": "1"}, {"claimed"}),
            ({"older_than": "1h"}, set()),
            ({"newer_than": "1h", "content_type": "Text/Plain"}, {"text"}),
            ({"max_receives": "0", "state": "ready", "attribute": "kind", "text": "order"}, {"number"}),
        ],
    )
    def test_a_filter_finds_what_it_says(
        self, talk: Talk, person: Person, query: dict[str, str], expected: set[str]
    ) -> None:
        sent = {"claimed": send(talk, b"first")}
        claimed = talk("POST", "/v1/queues/orders/claim", {"hold_ms": 600_000}).json["messages"]
        assert [one["id"] for one in claimed] == list(sent.values())
        sent["text"] = send(
            talk, b"a needle here", attributes={"kind": "a b"}, content_type="text/plain; charset=utf-8"
        )
        for name, value in {"number": 7, "word": "7", "seven": "seven", "true": True, "null": None}.items():
            more = {"attributes": {"kind": "x"}} if name == "number" else {}
            sent[name] = send(talk, json.dumps({"order": {"id": value}}).encode(), **more)
        sent["delayed"] = send(talk, b"later", delay_ms=600_000)
        names = {message_id: name for name, message_id in sent.items()}
        reply = person.get(f"{LIST}?{urlencode(query)}")
        assert reply.status == 200
        assert {names[one] for one in ids(reply.body)} == expected
        count = "1 matches" if len(expected) == 1 else f"{len(expected)} match"
        assert f"Looked at 8 of 8; {count}. This is the end of the queue." in reply.body.decode()
        for value in query.values():
            assert f'value="{value}"' in unescape(reply.body.decode()), "what was asked for is kept"

    def test_a_search_is_bounded_and_says_how_far_it_looked(self, person: Person, server: ThreadServer) -> None:
        """The broker looks at 10,000 messages at once."""
        with server.talk() as talk:
            talk("PUT", "/v1/queues/orders", {})
            for start in (0, 9_000):
                batch = [{"body": f"m{number}"} for number in range(start, start + 9_000)]
                talk("POST", "/v1/queues/orders/messages", {"messages": batch})
            talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "needle"}]})
        page = person.get(f"{LIST}?text=needle").body.decode()
        assert "Looked at 10,000 of 18,001; 0 match." in page
        going_on = unescape(re.search(r'rel="next" href="([^"]*)"', page)[1])
        page = person.get(going_on).body.decode()
        assert "Looked at 18,001 of 18,001; 1 matches. This is the end of the queue." in page

    @pytest.mark.parametrize(
        ("query", "field", "why"),
        [
            ({"older_than": "soon"}, "older_than", "write it like 30s"),
            ({"older_than": "9999999999d"}, "older_than", "must be between"),
            ({"newer_than": "-5s"}, "newer_than", "write it like"),
            ({"min_receives": "many"}, "min_receives", "whole number"),
            ({"max_receives": "99999999999"}, "max_receives", "between 0 and"),
            ({"path": "order"}, "path", "begins with $"),
            ({"path": "$..order", "value": "1"}, "path", "cannot be read from"),
            ({"path": "$.a", "value": "9" * 30}, "path", "64 bits"),
            ({"value": "1"}, "path", "say where"),
            ({"attribute_value": "1"}, "attribute", "name the attribute"),
            ({"attribute": "a" * 2_000}, "attribute", "1 to 1000 characters"),
            ({"text": "a" * 2_000}, "text", "1 to 1000 characters"),
            ({"state": "asleep"}, "state", "asleep"),
            ({"content_type": "x" * 300}, "content_type", "1 to 255 characters"),
        ],
    )
    def test_what_is_wrong_is_said_beside_its_field(
        self, talk: Talk, person: Person, query: dict[str, str], field: str, why: str
    ) -> None:
        send(talk, b"one")
        reply = person.get(f"{LIST}?{urlencode(query)}")
        assert reply.status == 422
        said = re.search(rf'id="field-{field}-error"[^>]*>([^<]*)<', reply.body.decode())
        assert said is not None
        assert why in unescape(said[1])
        assert ids(reply.body) == [], "nothing is shown that might be taken for what was asked for"

    @pytest.mark.parametrize("after", ["x", "1-", "-1", "1-2-3", "9" * 60, "%00", "1-" + "9" * 40])
    def test_a_place_that_is_none_is_passed_over(self, talk: Talk, person: Person, after: str) -> None:
        sent = send(talk, b"one")
        assert ids(person.get(f"{LIST}?after={after}&looked=x&matched=-1").body) == [sent]

    def test_a_queue_that_is_not_there_has_a_page(self, person: Person) -> None:
        for path in ("/console/queues/none/messages", f"/console/queues/none/messages/{'0' * 36}"):
            reply = person.get(path)
            assert reply.status == 404
            assert b"Not found" in reply.body

    @pytest.mark.parametrize("name", HOSTILE)
    def test_hostile_bodies_are_harmless_in_it(self, talk: Talk, person: Person, name: str) -> None:
        send(talk, HOSTILE[name], content_type="<b>type", attributes={"<i>": "\u202e"}, group="<u>g")
        reply = person.get(LIST)
        assert reply.status == 200
        assert_harmless(reply.body)
        assert len(reply.body) < 40_000


def assert_harmless(page: bytes) -> None:
    text = page.decode()
    assert not re.search(r"<script(?! src=\"/console/static/)", text)
    assert "<img src=x" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200f\ufeff]", text)


class TestOne:
    def test_all_that_is_known_is_told(self, talk: Talk, person: Person) -> None:
        send(
            talk,
            b'{"order": 1.50, "lines": []}',
            content_type="application/json",
            attributes={"kind": "order"},
            group="g-1",
        )
        [claimed] = talk("POST", "/v1/queues/orders/claim", {"hold_ms": 590_000}).json["messages"]
        page = person.get(f"{LIST}/{claimed['id']}").body.decode()
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
        for words in ("Receives 1", "Claim number", "Group g-1", "Content type application/json", "kind order"):
            assert words in text, words
        assert re.search(r"Claimed\s+for 9 min", text)
        assert shown(page.encode()) == '{\n  "order": 1.50,\n  "lines": []\n}'

    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize("form", ["", "json", "text", "hex", "<script>"])
    def test_hostile_bodies_are_harmless_in_every_form(self, talk: Talk, person: Person, name: str, form: str) -> None:
        body = HOSTILE[name]
        sent = send(talk, body, content_type="application/json", attributes={"<i>": "\u202e", "a": "b\nc"})
        reply = person.get(f"{LIST}/{sent}?{urlencode({'as': form})}")
        assert reply.status == 200
        assert_harmless(reply.body)
        assert len(reply.body) < 900_000

    @pytest.mark.parametrize("name", HOSTILE)
    def test_the_whole_body_is_downloaded_and_never_shown_by_a_browser(
        self, talk: Talk, person: Person, name: str
    ) -> None:
        sent = send(talk, HOSTILE[name], content_type="text/html")
        reply = person.get(f"{LIST}/{sent}/body")
        assert (reply.status, reply.body) == (200, HOSTILE[name])
        assert reply.headers["Content-Type"] == "application/octet-stream"
        assert reply.headers["Content-Disposition"] == f'attachment; filename="{sent}.body"'
        assert reply.headers["X-Content-Type-Options"] == "nosniff"

    def test_one_that_is_gone_shows_what_became_of_it(self, talk: Talk, person: Person) -> None:
        talk("PATCH", "/v1/queues/orders", {"ledger": "bodies"})
        sent = send(talk, b"<script>gone</script>")
        [claimed] = talk("POST", "/v1/queues/orders/claim", {}).json["messages"]
        talk("POST", "/v1/queues/orders/ack", {"receipts": [claimed["receipt"]]})
        reply = person.get(f"{LIST}/{sent}")
        assert reply.status == 200
        assert b"processed" in reply.body
        assert shown(reply.body) == "<script>gone</script>"
        assert_harmless(reply.body)
        assert person.get(f"{LIST}/{sent}/body").body == b"<script>gone</script>"

    def test_one_that_has_moved_on_is_found_where_it_is(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"one", queue="orders-dead")
        page = person.get(f"{LIST}/{sent}").body.decode()
        assert f'href="/console/queues/orders-dead/messages/{sent}"' in page

    @pytest.mark.parametrize("name", ["0199a8c2-51f4-7abc-9def-00000000002a", "x", "%3Cscript%3E", "..", "%00"])
    def test_one_that_never_was_is_not_found(self, talk: Talk, person: Person, name: str) -> None:
        for path in (f"{LIST}/{name}", f"{LIST}/{name}/body"):
            reply = person.get(path)
            assert reply.status == 404
            assert_harmless(reply.body)


def test_a_json_text_is_set_in_without_a_change_to_it() -> None:
    text = b'{"a":[1,2.50,1.0e3,{"b":{}}],"c":"x\\"[]{},:","d":[]}'
    made = view(text, None)
    assert made.form is BodyForm.JSON
    assert made.text == (
        '{\n  "a": [\n    1,\n    2.50,\n    1.0e3,\n    {\n      "b": {}\n    }\n  ],\n'
        '  "c": "x\\"[]{},:",\n  "d": []\n}'
    )


@pytest.mark.parametrize(
    ("body", "kind", "form"),
    [
        (b"{}", None, "json"),
        (b"7", None, "text"),
        (b"7", "application/problem+json; a=b", "json"),
        (b"{", "application/json", "text"),
        (b"a\x00b", "text/plain", "hex"),
        (b"\xff", None, "hex"),
        (b"", None, "text"),
    ],
)
def test_a_body_is_shown_in_the_form_that_tells_most(body: bytes, kind: str | None, form: str) -> None:
    assert view(body, kind).form == form
    assert view(body, kind, "hex").form == "hex"
    assert view(body, kind, "nonsense").form == form


def test_bodies_are_shown_as_far_as_a_page_goes() -> None:
    for form in ("json", "text", "hex"):
        made = view(b"[" + b"1," * 500_000 + b"1]", "application/json", form)
        assert made.form == form
        assert made.cut
        assert len(made.text) <= 80_000
    assert view(b"00 01", None, "hex").text == "00000000  30 30 20 30 31                                    00 01"


def test_what_cannot_be_seen_is_shown_as_a_number() -> None:
    assert visible("a\u202eb\x00c\ud800\n\td\u200d") == "a⟨U+202E⟩b⟨U+0000⟩c⟨U+D800⟩\n\td\u200d"
    assert preview("ä".encode() * 300).startswith("ää")
    assert preview(b"\xff\x00\x01") == "ff 00 01"
    assert preview(b" a\n\n b ") == "a b"


@pytest.mark.parametrize("name", [*HOSTILE, "quotes"])
def test_the_command_sends_the_same_message(
    talk: Talk, person: Person, server: ThreadServer, tmp_path, name: str
) -> None:
    if shutil.which("curl") is None:
        not_installed("curl")
    body = HOSTILE.get(name, b"it's \"a\" $HOME `id` $(id) \\ !! \n'")
    attributes = {"a'b": "$(id)`id`\u202e", "c": '\n"\\'}
    sent = send(talk, body, attributes=attributes, content_type="x/'$(id)", group="g'1")
    page = person.get(f"{LIST}/{sent}").body
    command = unescape(re.search(r'<pre id="curl"[^>]*>(.*?)</pre>', page.decode(), re.DOTALL)[1])
    assert command.isascii()
    assert server.url in command
    (tmp_path / f"{sent}.body").write_bytes(person.get(f"{LIST}/{sent}/body").body)
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout)["sent"][0]["stored"]
    messages = talk("GET", "/v1/queues/orders/messages").json["messages"]
    first, second = [{**one, "id": "", "sent_at": 0} for one in messages]
    assert first == second
    assert first["attributes"] == attributes


def test_the_command_takes_the_key_from_a_variable(
    keyed: Callable[..., ThreadServer], people: Callable[[ThreadServer], Person], key_store: KeyStore
) -> None:
    secret = key_store.create("boss", "queue|*|*")
    server = keyed()
    with server.talk() as talk:
        bearer = {"authorization": f"Bearer {secret}"}
        talk("PUT", "/v1/queues/orders", {}, **bearer)
        reply = talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "x"}]}, **bearer)
    person = people(server)
    person.sign_in(secret)
    page = unescape(person.get(f"{LIST}/{reply.json['sent'][0]['id']}").body.decode())
    assert '-H "Authorization: Bearer $PENSTOCK_KEY"' in page
    assert secret not in page
