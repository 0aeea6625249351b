"""The log of actions in the console."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from penstock.model import ActionKind, Actor
from tests.faces.console.conftest import Person
from tests.faces.console.test_ledger import text_of
from tests.servers import ThreadServer
from tests.talk import Reply

PAGE = "/console/actions"


def lines(reply: Reply) -> list[str]:
    rows = re.findall(r'<tr id="action-\d+">(.*?)</tr>', reply.body.decode(), re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]


def test_what_was_done_is_told_the_newest_first(server: ThreadServer, person: Person) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders", {"visibility_ms": 5_000})
        talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
        talk("POST", "/v1/queues/orders/purge", {})
    person.get("/console/keys")
    person.post("/console/keys", {"name": "boss", "rules": "queue|*|*"})
    reply = person.get(PAGE)
    [signed_in, key, purge, create] = lines(reply)
    assert "boss console console.sign-in" in signed_in
    assert "no key console key.create" in key
    assert '"name": "boss"' in key
    assert "no key native queue.purge orders 2" in purge
    assert "native queue.create orders" in create
    assert '{\n  "visibility_ms": 5000\n}' in unescape(reply.body.decode()), "JSON is set in"


def test_it_is_filtered_and_paged(server: ThreadServer, person: Person) -> None:
    with server.talk() as talk:
        for number in range(60):
            talk("PUT", f"/v1/queues/q{number}", {})
        server.clock.advance(7_200)
        talk("DELETE", "/v1/queues/q7")
    first = person.get(PAGE)
    assert len(lines(first)) == 50
    assert "queue.delete q7" in lines(first)[0]
    older = unescape(re.search(r'rel="next" href="([^"]*)"', first.body.decode())[1])
    second = person.get(older)
    assert len(lines(second)) == 11
    assert not set(lines(first)) & set(lines(second))
    assert "To the newest" in text_of(second)
    assert b'hx-trigger="every' in first.body
    assert b'id="actions"' not in second.body, "what is older does not change"

    def found(**query: str) -> int:
        reply = person.get(f"{PAGE}?{urlencode(query)}")
        assert reply.status == 200
        return len(lines(reply))

    assert found(queue="q7") == 2
    assert found(queue="q7", what="queue.delete") == 1
    assert found(since="1h") == 1
    assert found(until="1h", queue="q7") == 1
    assert found(key="nobody") == 0
    # A filter goes along to further pages.
    page = person.get(f"{PAGE}?until=1h").body.decode()
    older = unescape(re.search(r'rel="next" href="([^"]*)"', page)[1])
    assert "until=1h" in older
    assert len(lines(person.get(older))) == 10


def test_the_live_part_is_a_part_of_the_page(server: ThreadServer, person: Person) -> None:
    assert "Nothing was done yet" in text_of(person.get(PAGE))
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders", {})
    part = person.get(PAGE, hx_request="true")
    assert b"<html" not in part.body
    assert len(lines(part)) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"what": "queue.eat"}, "what"),
        ({"since": "soon"}, "since"),
        ({"since": "1h", "until": "1h"}, "until"),
        ({"queue": "a\nb"}, "queue"),
        ({"key": "<script>" + "x" * 300}, "key"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(person: Person, query: dict[str, str], field: str) -> None:
    reply = person.get(f"{PAGE}?{urlencode(query)}")
    assert reply.status == 422
    assert f'id="field-{field}-error"'.encode() in reply.body
    assert b"<script>" not in reply.body.replace(b"<script src", b"")


@pytest.mark.parametrize("before", ["x", "0", "-1", "9" * 40, "%00"])
def test_a_place_that_is_none_is_passed_over(server: ThreadServer, person: Person, before: str) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders", {})
    assert len(lines(person.get(f"{PAGE}?before={before}"))) == 1


@pytest.mark.parametrize(
    "detail", ["<script>alert(1)</script>", '{"a": "</pre><img src=x>"}', "a\u202eb", "{" * 200, "9"]
)
def test_a_detail_is_shown_as_it_is(server: ThreadServer, person: Person, detail: str) -> None:
    entry = (Actor("<b>k", "<i>native"), ActionKind.QUEUE_UPDATE, 1, "<u>q", 3, detail)
    server.in_unit(lambda unit: unit.actions.record(*entry))
    body = person.get(PAGE).body.decode()
    assert "<script>alert" not in body
    assert "<img src=x" not in body
    assert not re.search("<[biu]>|\u202e", body)
    assert len(lines(person.get(PAGE))) == 1
