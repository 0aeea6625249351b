"""The ledger in the console: what became of messages, and what failures have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from penstock.faces.console.ledger import grouped
from penstock.model import LedgerRow, Outcome
from tests.faces.console.conftest import Person
from tests.faces.console.test_messages import HOSTILE, assert_harmless, send, shown
from tests.servers import ThreadServer
from tests.talk import Reply, Talk

PAGE = "/console/ledger"
FAILURES = "/console/ledger/failures"


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders-dead", {})
        redrive = {"max_receives": 1, "dead_letter_queue": "orders-dead"}
        talk("PUT", "/v1/queues/orders", {"ledger": "bodies", "redrive": redrive})
        talk("PUT", "/v1/queues/mail", {})
        yield talk


def finish(talk: Talk, queue: str = "orders", how: str = "ack") -> list[str]:
    """Claim all there is, and ack or release it. What is released in `orders` is a dead letter at the next claim."""
    claimed = talk("POST", f"/v1/queues/{queue}/claim", {"limit": 100}).json["messages"]
    done = talk("POST", f"/v1/queues/{queue}/{how}", {"receipts": [one["receipt"] for one in claimed]})
    assert done.status == 200
    return [one["id"] for one in claimed]


def fail(talk: Talk) -> list[str]:
    failed = finish(talk, how="release")
    assert talk("POST", "/v1/queues/orders/claim", {"limit": 100}).json["messages"] == []
    return failed


def text_of(reply: Reply) -> str:
    page = reply.body.decode()
    main = page[page.index("<main") : page.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


def ids(reply: Reply) -> list[str]:
    return re.findall(r'href="/console/ledger\?id=([0-9a-f-]{36})"', reply.body.decode())


def lines(reply: Reply) -> list[str]:
    body = re.search(r"<tbody>(.*?)</tbody>", reply.body.decode(), re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", body[1] if body else "", re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]


class TestOne:
    """What became of message X."""

    def test_one_that_is_still_there(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"one", queue="mail")
        reply = person.get(f"{PAGE}?id=%20{sent.upper()}%20")
        assert f'href="/console/queues/mail/messages/{sent}"' in reply.body.decode()
        assert "It is in mail now: ready" in text_of(reply)
        assert "nothing about it" in text_of(reply)

    def test_one_that_has_become_a_dead_letter(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"one")
        assert fail(talk) == [sent]
        reply = person.get(f"{PAGE}?id={sent}")
        assert f'href="/console/queues/orders-dead/messages/{sent}"' in reply.body.decode()
        assert len(lines(reply)) == 1
        assert "orders dead-lettered" in lines(reply)[0]

    def test_one_that_is_gone_after_two_queues(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"one")
        fail(talk)
        assert finish(talk, "orders-dead") == [sent]
        reply = person.get(f"{PAGE}?id={sent}")
        assert "It is in no queue any more: processed in orders-dead" in text_of(reply)
        assert ["orders dead-lettered" in line for line in lines(reply)] == [True, False]
        assert ["orders-dead processed" in line for line in lines(reply)] == [False, True]

    def test_one_that_nobody_knows(self, talk: Talk, person: Person) -> None:
        reply = person.get(f"{PAGE}?id=0199a8c2-51f4-7abc-9def-00000000002a")
        assert reply.status == 200
        assert "No queue has this message" in text_of(reply)

    @pytest.mark.parametrize("text", ["x", "<script>alert(1)</script>", "0" * 36, "\x00", "a" * 5_000, "\u202e"])
    def test_what_is_not_an_id(self, talk: Talk, person: Person, text: str) -> None:
        reply = person.get(f"{PAGE}?{urlencode({'id': text})}")
        assert reply.status == 422
        assert b'id="field-id-error"' in reply.body
        assert b"<script>alert" not in reply.body


class TestRows:
    def test_the_newest_come_first_in_pages(self, talk: Talk, person: Person) -> None:
        sent = []
        for start in (0, 100):
            batch = [{"body": f"m{number}"} for number in range(start, start + 60)]
            sent += [one["id"] for one in talk("POST", "/v1/queues/mail/messages", {"messages": batch}).json["sent"]]
            finish(talk, "mail")
        seen, path = [], PAGE
        while path:
            reply = person.get(path)
            seen += ids(reply)
            following = re.search(r'rel="next" href="([^"]*)"', reply.body.decode())
            path = unescape(following[1]) if following else ""
        assert sorted(seen) == sorted(sent)
        assert set(seen[:60]) == set(sent[60:])
        assert "This is the end of the ledger." in text_of(reply)
        assert "To the newest" in text_of(reply)

    def test_filters(self, talk: Talk, person: Person, server: ThreadServer) -> None:
        mail = send(talk, b"one", queue="mail")
        finish(talk, "mail")
        server.clock.advance(7_200)
        order = send(talk, b"two")
        fail(talk)
        dead = send(talk, b"three", queue="orders-dead")
        talk("POST", "/v1/queues/orders-dead/purge", {})

        def found(**query: str) -> set[str]:
            reply = person.get(f"{PAGE}?{urlencode(query)}")
            assert reply.status == 200
            for value in query.values():
                assert value in unescape(reply.body.decode()), "what was asked for is kept"
            return set(ids(reply))

        assert found() == {mail, order, dead}
        assert found(queue="mail") == {mail}
        assert found(outcome="failures") == {order}
        assert found(outcome="dead-lettered") == {order}
        assert found(outcome="purged") == {order, dead}
        assert found(outcome="expired") == set()
        assert found(since="1h") == {order, dead}
        assert found(until="1h") == {mail}
        assert found(since="3h", until="1h") == {mail}
        assert found(since="2020-01-01", until="2020-01-02T12:30") == set()
        assert found(queue="orders", since="1h", outcome="processed") == set()
        assert found(queue="nowhere") == set()

    @pytest.mark.parametrize("path", [PAGE, FAILURES])
    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ({"since": "soon"}, "since"),
            ({"until": "<script>"}, "until"),
            ({"since": "1h", "until": "2h"}, "until"),
            ({"since": "9999999999999999999999d"}, None),
            ({"since": "99999-01-01"}, "since"),
            ({"outcome": "eaten"}, "outcome"),
            ({"queue": "a\x00b"}, "queue"),
            ({"queue": "q" * 301}, "queue"),
            ({"queue": "\u202egnp"}, "queue"),
        ],
    )
    def test_what_is_wrong_is_said_beside_its_field(
        self, talk: Talk, person: Person, path: str, query: dict[str, str], field: str | None
    ) -> None:
        send(talk, b"one")
        fail(talk)
        reply = person.get(f"{path}?{urlencode(query)}")
        assert b"<script>" not in reply.body.replace(b"<script src", b"")
        if field is None:
            assert reply.status == 200
            return
        assert reply.status == 422
        assert f'id="field-{field}-error"'.encode() in reply.body
        assert ids(reply) == [], "nothing is shown that might be taken for what was asked for"

    @pytest.mark.parametrize("below", ["x", "-1", "0", "9" * 40, "%00", "%C2%B2"])
    def test_a_place_that_is_none_is_passed_over(self, talk: Talk, person: Person, below: str) -> None:
        sent = send(talk, b"one")
        fail(talk)
        assert ids(person.get(f"{PAGE}?below={below}")) == [sent]

    def test_an_empty_ledger_says_so(self, person: Person) -> None:
        assert "The ledger has no rows yet" in text_of(person.get(PAGE))
        assert "No failures" in text_of(person.get(FAILURES))


class TestFailures:
    def test_they_are_grouped_by_what_they_share(self, talk: Talk, person: Person) -> None:
        kinds = ["text/plain", "text/plain", "application/json", None]
        sent = [send(talk, b"body", content_type=kind) for kind in kinds]
        fail(talk)
        send(talk, b"good", queue="mail")
        finish(talk, "mail")
        reply = person.get(FAILURES)
        found = lines(reply)
        assert len(found) == 3
        assert found[0].startswith("2 dead-lettered orders text/plain 1 receive ")
        assert sum("no content type" in line for line in found) == 1
        assert sum("application/json" in line for line in found) == 1
        assert ids(reply)[0] == sent[1], "an example, the latest"
        assert "Looked at 5 rows; 4 match" in text_of(reply)
        assert 'href="/console/queues/orders-dead/messages?content_type=text%2Fplain"' in reply.body.decode()
        there = person.get("/console/queues/orders-dead/messages?content_type=text%2Fplain").body.decode()
        assert [one in there for one in sent] == [True, True, False, False]

    def test_by_body_type_receives_or_queue(self, talk: Talk, person: Person) -> None:
        for body, kind in ((b"a", "x/y"), (b"a", "x/y"), (b"b", "x/y"), (b"b", None)):
            send(talk, body, content_type=kind)
        fail(talk)

        def counts(by: str) -> list[int]:
            return [int(line.split()[0]) for line in lines(person.get(f"{FAILURES}?by={by}"))]

        assert counts("body") == [2, 1, 1]
        assert counts("type") == [3, 1]
        assert counts("receives") == [4]
        assert counts("queue") == [4]
        assert person.get(f"{FAILURES}?by=luck").status == 422

    def test_other_outcomes_and_queues_are_asked_for(self, talk: Talk, person: Person) -> None:
        send(talk, b"a")
        fail(talk)
        send(talk, b"b", queue="mail")
        talk("POST", "/v1/queues/mail/purge", {})
        assert len(lines(person.get(f"{FAILURES}?outcome=purged"))) == 1
        assert "purged mail" in lines(person.get(f"{FAILURES}?outcome=purged"))[0]
        assert lines(person.get(f"{FAILURES}?queue=mail")) == []

    def test_the_look_is_bounded_and_says_how_far_it_went(self, talk: Talk, person: Person) -> None:
        send(talk, b"needle")
        fail(talk)
        for start in (0, 6_000):
            batch = [{"body": f"m{number}"} for number in range(start, start + 6_000)]
            talk("POST", "/v1/queues/mail/messages", {"messages": batch})
        talk("POST", "/v1/queues/mail/purge", {})
        reply = person.get(FAILURES)
        assert "Looked at 10,000 rows; 0 match." in text_of(reply)
        assert "No failures as far as was looked." in text_of(reply)
        going_on = unescape(re.search(r'rel="next" href="([^"]*)"', reply.body.decode())[1])
        reply = person.get(going_on)
        assert len(lines(reply)) == 1
        assert "This is the end of the ledger." in text_of(reply)

    def test_a_queue_that_is_gone_has_no_link(self, talk: Talk, person: Person) -> None:
        send(talk, b"a")
        fail(talk)
        talk("DELETE", "/v1/queues/orders")
        reply = person.get(FAILURES)
        assert len(lines(reply)) == 1
        assert "Look at them" not in lines(reply)[0]

    def test_groups_have_their_first_and_their_last(self) -> None:
        def row(number: int, at: int, receives: int) -> LedgerRow:
            return LedgerRow(number, "q", f"id-{number}", 0, 1, 1, at, receives, Outcome.FAILED, 1, b"h", None, None)

        [more, less] = grouped([row(4, 40, 3), row(3, 29, 3), row(2, 30, 3), row(1, 10, 2)], "kind")
        assert (more.count, more.latest.id, more.first_at) == (3, "id-4", 29)
        assert (less.count, less.latest.id, less.first_at) == (1, "id-1", 10)


class TestRow:
    def number(self, talk: Talk) -> int:
        return talk("GET", "/v1/ledger").json["rows"][-1]["number"]

    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize("form", ["", "text", "hex"])
    def test_a_body_is_shown_harmlessly(self, talk: Talk, person: Person, name: str, form: str) -> None:
        send(talk, HOSTILE[name], content_type="<b>type", attributes={"<i>": "x"})
        fail(talk)
        path = f"{PAGE}/rows/{self.number(talk)}"
        for page in (f"{path}?as={form}", PAGE, FAILURES):
            reply = person.get(page)
            assert reply.status == 200
            assert_harmless(reply.body)
            assert len(reply.body) < 900_000
        file = person.get(f"{path}/body")
        assert (file.status, file.body) == (200, HOSTILE[name])
        assert file.headers["Content-Type"] == "application/octet-stream"
        assert file.headers["Content-Disposition"].startswith("attachment;")
        assert file.headers["X-Content-Type-Options"] == "nosniff"

    def test_all_that_is_known_is_told(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b'{"a": 1}', content_type="application/json")
        fail(talk)
        reply = person.get(f"{PAGE}/rows/{self.number(talk)}")
        assert shown(reply.body) == '{\n  "a": 1\n}'
        for words in (f"Message {sent}", "Queue orders", "Receives 1", "Content type application/json", "Size 8 bytes"):
            assert words in text_of(reply), words

    def test_one_without_a_body_says_so(self, talk: Talk, person: Person) -> None:
        send(talk, b"x", queue="mail")
        finish(talk, "mail")
        path = f"{PAGE}/rows/{self.number(talk)}"
        assert "kept no bodies" in text_of(person.get(path))
        assert person.get(f"{path}/body").status == 404

    @pytest.mark.parametrize("number", ["0", "-1", "99", "x", "9" * 30, "%3Cscript%3E", "%00"])
    def test_one_that_is_not_there_has_a_page(self, talk: Talk, person: Person, number: str) -> None:
        send(talk, b"x")
        fail(talk)
        for path in (f"{PAGE}/rows/{number}", f"{PAGE}/rows/{number}/body"):
            reply = person.get(path)
            assert reply.status == 404
            assert_harmless(reply.body)


def test_who_may_not_poll_every_queue_is_not_led_there(
    key_store, keyed: Callable[..., ThreadServer], people: Callable[[ThreadServer], Person]
) -> None:
    secret = key_store.create("some", "queue|poll|orders*", "queue|get_status|*")
    person = people(keyed())
    person.sign_in(secret)
    page = person.get().body.decode()
    assert 'href="/console/ledger"' not in page
    assert 'href="/console/actions"' not in page
    assert person.get(PAGE).status == 403
