"""What is done to messages from the console: to those that were chosen, and to all that a filter means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.faces.console.conftest import Person
from tests.faces.console.test_messages import HOSTILE, assert_harmless, send
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until

LIST = "/console/queues/orders/messages"
GONE = "0199a8c2-51f4-7abc-9def-00000000002a"
DEAD = "/console/queues/orders-dead/messages"


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        for name in ("orders-dead", "orders", "other"):
            assert talk("PUT", f"/v1/queues/{name}", {}).status == 201
        talk("PATCH", "/v1/queues/orders", {"redrive": {"max_receives": 1, "dead_letter_queue": "orders-dead"}})
        yield talk


def act(person: Person, path: str, deed: str, chosen: list[str], **more: str) -> Reply:
    person.get(path)
    fields = [("csrf", person.token), ("act", deed), *(("id", one) for one in chosen), *more.items()]
    return person.raw(f"{path}/act", urlencode(fields).encode(), "application/x-www-form-urlencoded")


def bodies(talk: Talk, queue: str) -> list[str]:
    return [one["body"] for one in talk("GET", f"/v1/queues/{queue}/messages?limit=1000").json["messages"]]


def said(person: Person, reply: Reply) -> str:
    """The note on the page that a change leads to."""
    assert reply.status == 303, reply.body.decode()
    page = person.get(reply.headers["Location"]).body.decode()
    return unescape(re.search(r'<p class="banner good">([^<]*)</p>', page)[1])


def dead_letter(talk: Talk, body: bytes = b"bad", **more: object) -> str:
    message_id = send(talk, body, **more)
    talk("POST", "/v1/queues/orders/claim", {"hold_ms": 0})
    talk("POST", "/v1/queues/orders/claim", {"hold_ms": 0})
    assert len(bodies(talk, "orders-dead")) >= 1
    return message_id


def actions(talk: Talk) -> list[dict]:
    return talk("GET", "/v1/actions").json["actions"]


class TestChosen:
    def test_deleting_is_asked_about_first(self, talk: Talk, person: Person) -> None:
        sent = [send(talk, b"m%d" % number) for number in range(3)]
        reply = act(person, LIST, "delete", sent[:2])
        assert reply.status == 200
        assert b"Delete these 2 messages?" in reply.body
        assert bodies(talk, "orders") == ["m0", "m1", "m2"]
        reply = act(person, LIST, "delete", sent[:2], confirmed="yes", back=f"{LIST}?text=m")
        assert reply.headers["Location"] == f"{LIST}?text=m"
        assert said(person, reply) == "Deleted 2 messages."
        assert bodies(talk, "orders") == ["m2"]
        reply = act(person, LIST, "delete", sent, confirmed="yes")
        assert said(person, reply) == "Deleted 1 message; 2 are no longer there."
        [last, *_] = actions(talk)
        assert (last["what"], last["via"], last["queue"], last["count"]) == ("messages.delete", "console", "orders", 1)

    def test_a_claim_is_ended_at_once(self, talk: Talk, person: Person) -> None:
        sent = [send(talk, b"m%d" % number, queue="other") for number in range(2)]
        talk("POST", "/v1/queues/other/claim", {"hold_ms": 600_000})
        reply = act(person, "/console/queues/other/messages", "release", [*sent, GONE])
        assert said(person, reply) == "Released 2 messages; 1 is no longer there, or in a shipment."
        assert talk("GET", "/v1/queues/other").json["count"]["ready"] == 2

    def test_messages_move_to_the_queue_that_is_named(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"m")
        assert b'value="other"' in act(person, LIST, "move", [sent]).body, "queues to choose from"
        reply = act(person, LIST, "move", [sent], confirmed="yes", target="other")
        assert said(person, reply) == "Moved 1 message."
        [moved] = talk("GET", "/v1/queues/other/messages").json["messages"]
        assert moved["id"] == sent

    @pytest.mark.parametrize(
        ("target", "why"),
        [("", "a queue name is"), ("a b", "a queue name is"), ("none", "does not exist"), ("orders", "another queue")],
    )
    def test_a_target_that_is_none_is_said_beside_its_field(
        self, talk: Talk, person: Person, target: str, why: str
    ) -> None:
        sent = send(talk, b"m")
        for deed, more in (("move", {}), ("redrive", {"where": "queue"})):
            reply = act(person, LIST, deed, [sent], confirmed="yes", target=target, **more)
            assert reply.status == 422
            assert why in unescape(re.search(r'id="field-target-error"[^>]*>([^<]*)', reply.body.decode())[1])
        assert bodies(talk, "orders") == ["m"]

    def test_dead_letters_go_back_as_new(self, talk: Talk, person: Person) -> None:
        sent = dead_letter(talk)
        homeless = send(talk, b"never anywhere", queue="orders-dead")
        page = act(person, DEAD, "redrive", [sent]).body.decode()
        assert "Back to the queue that each came from" in page
        reply = act(person, DEAD, "redrive", [sent, homeless], confirmed="yes", where="home")
        assert said(person, reply) == "Redrove 1 message; 1 is without a queue to go back to."
        [back] = talk("GET", "/v1/queues/orders/messages").json["messages"]
        assert (back["body"], back["receives"]) == ("bad", 0)
        assert back["id"] != sent

    @pytest.mark.parametrize("chosen", [[], ["x"], ["<script>"]])
    @pytest.mark.parametrize("deed", ["delete", "move", "fly", ""])
    def test_what_makes_no_sense_is_refused(self, talk: Talk, person: Person, deed: str, chosen: list[str]) -> None:
        send(talk, b"m")
        reply = act(person, LIST, deed, chosen, confirmed="yes", target="other")
        assert reply.status in (400, 404)
        assert_harmless(reply.body)
        assert bodies(talk, "orders") == ["m"]

    def test_nothing_happens_without_a_token(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"m")
        person.get(LIST)
        for path, fields in (
            (f"{LIST}/act", {"act": "delete", "id": sent, "confirmed": "yes"}),
            (f"{LIST}/all", {"act": "delete"}),
            (f"{LIST}/{sent}/edit", {"body": "x", "target": "orders"}),
            ("/console/queues/orders/send", {"way": "one", "body": "x", "once": "a" * 20}),
        ):
            assert person.post(path, {**fields, "csrf": "wrong"}).status == 403
        assert bodies(talk, "orders") == ["m"]

    def test_no_one_is_led_elsewhere(self, talk: Talk, person: Person) -> None:
        for back in ("https://evil.example/", "//evil.example", "/v1/queues", "/console/sign-out", "javascript:x"):
            reply = act(person, LIST, "release", [send(talk, b"m")], back=back)
            assert reply.headers["Location"] == LIST


class TestEditing:
    def edit(self, person: Person, path: str, **changes: str) -> Reply:
        page = person.get(f"{path}/edit").body.decode()
        fields = {"csrf": person.token}
        for name, value in re.findall(r'<input id="[^"]*" name="(\w+)" type="text" value="([^"]*)"', page):
            fields[name] = unescape(value)
        for name, value in re.findall(r'<textarea id="[^"]*" name="(\w+)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL):
            fields[name] = unescape(value)
        fields["written"] = re.search(r'name="written" value="(\w+)" checked', page)[1]
        return person.post(f"{path}/edit", {**fields, **changes})

    def test_a_dead_letter_is_mended_and_goes_back(self, talk: Talk, person: Person) -> None:
        kinds = {"content_type": "application/json", "attributes": {"kind": "x"}, "group": "g"}
        sent = dead_letter(talk, b'{"a": 1}', **kinds)
        reply = self.edit(person, f"{DEAD}/{sent}", body='{"a": 2}')
        assert said(person, reply).startswith("Sent to orders as ")
        assert bodies(talk, "orders-dead") == []
        [back] = talk("GET", "/v1/queues/orders/messages").json["messages"]
        assert back["body"] == '{"a": 2}'
        assert {name: back[name] for name in kinds} == kinds
        assert actions(talk)[0]["what"] == "messages.resend"

    @pytest.mark.parametrize("name", HOSTILE)
    def test_what_is_not_edited_stays_as_it_is(self, talk: Talk, person: Person, name: str) -> None:
        attributes = {"<b>": "\u202e\r\n", "a": '"\\\n'}
        sent = send(talk, HOSTILE[name], attributes=attributes)
        page = person.get(f"{LIST}/{sent}/edit")
        assert_harmless(page.body)
        assert self.edit(person, f"{LIST}/{sent}").status == 303
        [new] = talk("GET", "/v1/queues/orders/messages").json["messages"]
        assert new["id"] != sent
        assert new["attributes"] == attributes
        assert person.get(f"{LIST}/{new['id']}/body").body == HOSTILE[name]

    @pytest.mark.parametrize(
        ("change", "field", "why"),
        [
            ({"body": "{", "content_type": "application/json"}, "body", "not JSON"),
            ({"body": "%%%", "written": "base64"}, "body", "not base64"),
            ({"content_type": "x" * 300}, "content_type", "255"),
            ({"attributes": "[1]"}, "attributes", "a JSON object of texts"),
            ({"attributes": '{"a": 1}'}, "attributes", "a JSON object of texts"),
            ({"group": "g" * 200}, "group", "1 to 128"),
            ({"delay": "later"}, "delay", "write it like"),
            ({"dedup_id": "d" * 200}, "dedup_id", "1 to 128"),
            ({"target": "a b"}, "target", "a queue name is"),
            ({"target": "none"}, "target", "does not exist"),
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_is_lost(
        self, talk: Talk, person: Person, change: dict[str, str], field: str, why: str
    ) -> None:
        sent = send(talk, b"as it was")
        reply = self.edit(person, f"{LIST}/{sent}", **change)
        page = reply.body.decode()
        assert reply.status == 422
        assert why in unescape(re.search(rf'id="field-{field}-error"[^>]*>([^<]*)', page)[1])
        assert bodies(talk, "orders") == ["as it was"]
        if "body" in change:
            assert change["body"] in unescape(page), "what was written is kept"

    def test_one_that_went_meanwhile_is_not_sent(self, talk: Talk, person: Person) -> None:
        sent = send(talk, b"m")
        person.get(f"{LIST}/{sent}/edit")
        talk("POST", "/v1/queues/orders/purge", {})
        reply = person.post(f"{LIST}/{sent}/edit", {"body": "new", "target": "orders"})
        assert reply.status == 422
        assert b"is not in this queue any more: nothing was sent" in reply.body
        assert bodies(talk, "orders") == []


class TestAll:
    def start(self, person: Person, deed: str, query: dict[str, str], **more: str) -> str:
        """The task that counts, when it has ended."""
        assert person.get(f"{LIST}/all?{urlencode(query)}").status == 200
        reply = person.post(f"{LIST}/all", {**query, "act": deed, **more})
        assert reply.status == 303, reply.body.decode()
        return self.ended(person, reply.headers["Location"])

    def ended(self, person: Person, path: str) -> str:
        """A page that is alive asks to be loaded again when there is something to confirm."""
        wait_until(lambda: person.get(path, hx_request="true").headers.get("HX-Refresh") == "true")
        return path

    @pytest.fixture
    def many(self, talk: Talk) -> Talk:
        for number in range(10):
            send(talk, b'{"n": %d}' % (number % 2))
        return talk

    def test_they_are_counted_confirmed_and_deleted(self, many: Talk, person: Person) -> None:
        counted = self.start(person, "delete", {"path": "$.n", "value": "1"})
        page = person.get(counted).body.decode()
        assert "Delete these 5 messages?" in page
        assert len(bodies(many, "orders")) == 10
        send(many, b'{"n": 1}')
        assert person.post(f"{counted}/run").status == 422
        assert person.post(f"{counted}/run", {"confirm": "order"}).status == 422
        reply = person.post(f"{counted}/run", {"confirm": "orders"})
        assert said(person, reply) == "The task has started."
        page = person.get(self.ended(person, reply.headers["Location"])).body.decode()
        assert '<dd id="done">5</dd>' in page
        assert sorted(bodies(many, "orders")) == ['{"n": 0}'] * 5 + ['{"n": 1}'], "what came later stays"
        kinds = [(one["what"], one["via"], one["count"]) for one in actions(many)]
        assert ("move.start", "console", None) in kinds
        assert ("move.end", "console", 5) in kinds
        listed = person.get("/console/tasks").body.decode()
        assert listed.count('<tr id="task-') == 2
        assert "<progress " in listed

    def test_they_are_moved_with_a_limit_and_a_rate(self, many: Talk, person: Person) -> None:
        counted = self.start(person, "move", {"text": "1"}, target="other")
        for wrong in ({"limit": "0"}, {"limit": "x"}, {"per_second": "0"}, {"per_second": "99999999"}):
            reply = person.post(f"{counted}/run", wrong)
            assert reply.status == 422
            assert f'id="field-{next(iter(wrong))}-error"' in reply.body.decode()
        reply = person.post(f"{counted}/run", {"limit": "3", "per_second": "1000"})
        self.ended(person, reply.headers["Location"])
        assert bodies(many, "other") == ['{"n": 1}'] * 3

    def test_claims_end_and_dead_letters_go_home(self, talk: Talk, person: Person) -> None:
        dead_letter(talk)
        send(talk, b"m")
        talk("POST", "/v1/queues/orders/claim", {"hold_ms": 600_000})
        counted = self.start(person, "release", {})
        self.ended(person, person.post(f"{counted}/run").headers["Location"])
        assert talk("GET", "/v1/queues/orders").json["count"]["ready"] == 1
        person.get(f"{DEAD}/all")
        counted = person.post(f"{DEAD}/all", {"act": "redrive", "where": "home"}).headers["Location"]
        self.ended(person, counted)
        self.ended(person, person.post(f"{counted}/run").headers["Location"])
        assert sorted(bodies(talk, "orders")) == ["bad", "m"]

    def test_a_task_can_be_cancelled(self, many: Talk, person: Person) -> None:
        more = {"messages": [{"body": str(number)} for number in range(600)]}
        assert many("POST", "/v1/queues/orders/messages", more).status == 201
        counted = self.start(person, "move", {}, target="other")
        running = person.post(f"{counted}/run", {"per_second": "1"}).headers["Location"]
        assert b"Cancel" in person.get(running, hx_request="true").body
        other = person.post(f"{counted}/run", {})
        assert other.status == 409
        assert b"another move that is still in progress" in other.body
        assert said(person, person.post(f"{running}/cancel")) == "The task is cancelled."
        assert len(bodies(many, "orders")) > 0
        assert person.post(f"{running}/run").status == 400, "it was not a count"

    def test_none_that_match_are_nothing_to_do(self, many: Talk, person: Person) -> None:
        counted = self.start(person, "delete", {"text": "nothing of the kind"})
        assert b"there is nothing to do" in person.get(counted).body

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({}, 422),
            ({"act": "fly"}, 422),
            ({"act": "move"}, 422),
            ({"act": "move", "target": "none"}, 422),
            ({"act": "move", "target": "orders"}, 422),
            ({"act": "delete", "path": "order"}, 400),
            ({"act": "delete", "older_than": "x"}, 400),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, many: Talk, person: Person, fields: dict[str, str], status: int
    ) -> None:
        person.get(LIST)
        assert person.post(f"{LIST}/all", fields).status == status
        assert many("GET", "/v1/moves").json["moves"] == []

    def test_a_task_that_is_not_there_has_a_page(self, person: Person) -> None:
        assert person.get("/console/tasks/none").status == 404
        for verb in ("run", "cancel"):
            assert person.post(f"/console/tasks/none/{verb}").status == 404

    @pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\u202e", '"><img src=x>'])
    def test_hostile_filters_are_shown_and_never_run(self, many: Talk, person: Person, text: str) -> None:
        query = {"text": text, "path": "$.n", "value": text, "attribute": text, "attribute_value": text}
        assert "<script>alert" not in person.get(f"{LIST}/all?{urlencode(query)}").body.decode()
        counted = self.start(person, "delete", query)
        for path in (counted, "/console/tasks"):
            assert_harmless(person.get(path).body)


def test_a_key_does_what_its_rules_permit_and_no_more(
    keyed: Callable[..., ThreadServer], people: Callable[[ThreadServer], Person], key_store: KeyStore
) -> None:
    boss = key_store.create("boss", "queue|*|*")
    worker = key_store.create("worker", "queue|poll|orders")
    mover = key_store.create("mover", "queue|poll|orders", "queue|post|other")
    stranger_key = key_store.create("stranger", "queue|*|elsewhere")
    server = keyed()
    with server.talk() as talk:
        bearer = {"authorization": f"Bearer {boss}"}
        for name in ("orders", "other"):
            talk("PUT", f"/v1/queues/{name}", {}, **bearer)
        sent = talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "m"}]}, **bearer).json["sent"][0]["id"]

        def here() -> list[str]:
            found = talk("GET", "/v1/queues/orders/messages", **bearer).json["messages"]
            return [one["body"] for one in found]

        person = people(server)
        person.sign_in(worker)
        for path in (LIST, f"{LIST}/{sent}", f"{LIST}/all"):
            page = person.get(path).body.decode()
            assert 'value="move"' not in page
            assert 'value="redrive"' not in page
            assert "/send" not in page
            assert "/edit" not in page
        assert act(person, LIST, "move", [sent], confirmed="yes", target="other").status == 403
        assert act(person, LIST, "redrive", [sent], confirmed="yes", where="home").status == 403
        assert person.post(f"{LIST}/all", {"act": "move", "target": "other"}).status == 403
        assert person.post(f"{LIST}/{sent}/edit", {"body": "x", "target": "orders"}).status == 403
        assert here() == ["m"]
        # The task of another: to be seen where one may poll, and to be run only with its rules.
        other = people(server)
        other.sign_in(mover)
        other.get(LIST)
        counted = other.post(f"{LIST}/all", {"act": "move", "target": "other"}).headers["Location"]
        wait_until(lambda: other.get(counted, hx_request="true").status == 204)
        assert person.post(f"{counted}/run").status == 403
        assert b"/run" not in person.get(counted).body
        stranger = people(server)
        stranger.sign_in(stranger_key)
        assert stranger.get(counted).status == 403
        assert stranger.post(f"{counted}/cancel").status == 403
        assert b"orders" not in stranger.get("/console/tasks").body
        assert here() == ["m"]
        assert other.post(f"{counted}/run").status == 303
        wait_until(lambda: here() == [])
