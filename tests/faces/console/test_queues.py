"""The overview of queues, the page of a queue, and what can be done to a whole queue there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from html import unescape

import pytest

from penstock.errors import StoreCorrupt, StoreFull, StoreUnavailable
from penstock.faces.console.rendering import spark_points
from penstock.model import Delivery, Registration, Settings
from penstock.timings import Timings
from tests.faces.console.conftest import Person
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

People = Callable[[ThreadServer], Person]
Keyed = Callable[..., ThreadServer]
PLACE = "/console/queues/orders"
HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "{{ 7*7 }}", "\u202egnp.exe", "a\x00b"]


@pytest.fixture
def timings() -> Timings:
    """Of a server that looks at its queues often."""
    return Timings(figures_s=0.05)


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talking:
        talking("PUT", "/v1/queues/orders", {})
        yield talking


def settings_of(talk: Talk, queue: str = "orders") -> dict[str, object]:
    return talk("GET", f"/v1/queues/{queue}").json["settings"]


def send(talk: Talk, queue: str = "orders", count: int = 1, **more: object) -> None:
    messages = [{"body": f"message {number}", **more} for number in range(count)]
    assert talk("POST", f"/v1/queues/{queue}/messages", {"messages": messages}).status == 201


def tiles(body: bytes) -> dict[str, str]:
    """What stands in the tiles of a page, by their titles."""
    found = re.findall(r'class="tile"><dt>([^<]*)</dt><dd>(.*?)</dd>', body.decode(), re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]*>", " ", text).split()) for name, text in found}


def row(body: bytes, queue: str) -> list[str]:
    """The cells of a queue in the overview."""
    [line] = re.findall(rf'<tr id="queue-{re.escape(queue)}">(.*?)</tr>', body.decode(), re.DOTALL)
    cells = re.findall(r"<t[dh].*?</t[dh]>", line, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]


def form_of(person: Person, path: str) -> dict[str, str]:
    """What a browser would send if it was sent as it is."""
    body = person.get(path).body.decode()
    fields = dict(re.findall(r'<input id="[^"]*" name="([^"]*)"[^>]*? value="([^"]*)"', body))
    fields |= dict(re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>\n(.*?)</textarea>', body, re.DOTALL))
    for name, options in re.findall(r'<select id="[^"]*" name="([^"]*)"[^>]*>(.*?)</select>', body, re.DOTALL):
        [fields[name]] = re.findall(r'<option value="([^"]*)" selected', options)
    return {name: unescape(value) for name, value in fields.items()}


def error_by(body: bytes, field: str) -> str:
    found = re.search(rf'id="field-{field}-error"[^>]*>([^<]*)<', body.decode())
    return unescape(found[1]) if found else ""


def away(error: Exception) -> Callable[..., None]:
    def fail(*_args: object, **_named: object) -> None:
        raise error

    return fail


def test_a_spark_line_goes_through_its_values() -> None:
    assert spark_points([]) == ""
    assert spark_points([3]) == ""
    assert spark_points([0, 0, 0, 0]) == "0.0,23 100.0,23"
    assert spark_points([0, 5, 10]) == "0.0,23 50.0,12 100.0,1"
    assert spark_points([10, 10, 10, 0, 0]) == "0.0,1 50.0,1 75.0,23 100.0,23"


class TestOverview:
    def test_a_row_tells_what_is_in_a_queue_and_what_happens_there(self, talk: Talk, person: Person) -> None:
        talk("PUT", "/v1/queues/dead", {})
        talk("PATCH", "/v1/queues/orders", {"redrive": {"max_receives": 1, "dead_letter_queue": "dead"}})
        send(talk, count=5)
        send(talk, count=2, delay_ms=3_600_000)
        claimed = talk("POST", "/v1/queues/orders/claim", {"limit": 2}).json["messages"]
        talk("POST", "/v1/queues/orders/ack", {"receipts": [claimed[0]["receipt"]]})
        talk("POST", "/v1/queues/orders/release", {"receipts": [claimed[1]["receipt"]]})
        talk("POST", "/v1/queues/orders/claim", {"limit": 1})
        talk("POST", "/v1/queues/orders/pause")

        def is_told() -> bool:
            name, oldest, *counts, _sends, _acks, dead_lettered, state = row(person.get().body, "orders")
            is_old = oldest != "–"
            return is_old and [name, *counts, dead_lettered, state] == ["orders", "2", "2", "1", "1", "paused"]

        wait_until(is_told)
        wait_until(lambda: b'aria-label="sends of the last hour"' in person.get().body)
        assert b'aria-label="acks of the last hour"' in person.get().body
        assert row(person.get().body, "dead")[-1] == "dead letters"
        assert b'href="/console/queues/orders"' in person.get().body

    def test_delayed_messages_are_not_old(self, talk: Talk, person: Person) -> None:
        send(talk, delay_ms=3_600_000)
        # A queue that was counted just before the send is shown so for up to a second.
        wait_until(lambda: row(person.get().body, "orders")[1:4] == ["–", "0", "1"])

    def test_it_is_sorted_by_any_column(self, talk: Talk, person: Person) -> None:
        talk("PUT", "/v1/queues/later", {})
        send(talk, "later", 3, delay_ms=3_600_000)
        send(talk, "orders", 2)
        talk("POST", "/v1/queues/later/pause")
        wait_until(
            lambda: [row(person.get().body, name)[2:4] for name in ("orders", "later")] == [["2", "0"], ["0", "3"]]
        )
        first = {"name": "orders", "ready": "orders", "delayed": "later", "paused": "later", "oldest": "orders"}
        for sort, queue in first.items():
            order = "falling"
            body = person.get(f"/console?sort={sort}&order={order}").body.decode()
            assert re.findall(r'<tr id="queue-([^"]*)"', body)[0] == queue, sort
            assert 'aria-sort="descending"' in body
        for sort in ("claimed", "sends", "acks", "dead_letters", "total"):
            assert person.get(f"/console?sort={sort}").status == 200

    def test_the_health_of_the_server_stands_above(self, talk: Talk, person: Person) -> None:
        send(talk)
        told = tiles(person.get().body)
        assert told["Store"] == "ok"
        assert set(told) == {
            *("Store", "Room on the device", "Store and its log", "Commit", "Connections", "Claims that wait"),
            "Processes",
        }
        assert "iB" in told["Room on the device"]
        assert re.fullmatch(r"[\d.]+ ms 99 % within [\d.]+ ms", told["Commit"])
        assert int(told["Connections"]) >= 1

    def test_what_is_wrong_with_the_store_is_said(
        self, server: ThreadServer, talk: Talk, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        person.get()
        refused = StoreCorrupt("the file is damaged: <b>")
        monkeypatch.setattr(server.store, "unit", away(refused), raising=False)
        wait_until(lambda: "not well" in tiles(person.get().body).get("Store", ""))
        assert "the file is damaged: &lt;b&gt;" in person.get().body.decode()
        assert b"orders" in person.get().body, "what was known last is shown"

    def test_a_store_without_room_is_told(
        self, server: ThreadServer, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        person.get()
        monkeypatch.setattr(server.store, "unit", away(StoreFull("no room on the device")), raising=False)
        reply = person.get()
        assert reply.status == 503
        assert b"No room on the device." in reply.body

    def test_figures_of_the_server_are_for_those_who_may_see_all(
        self, key_store: KeyStore, keyed: Keyed, people: People
    ) -> None:
        some, boss = key_store.create("some", "queue|get_status|orders*"), key_store.create("boss", "queue|*|*")
        server = keyed()
        one, other = people(server), people(server)
        one.sign_in(some)
        other.sign_in(boss)
        assert set(tiles(one.get().body)) == {"Store"}
        assert len(tiles(other.get().body)) == 7
        assert b"/console/new-queue" not in one.get().body
        assert b"/console/new-queue" in other.get().body

    def test_sums_count_what_the_key_may_see(self, key_store: KeyStore, keyed: Keyed, people: People) -> None:
        secret, boss = key_store.create("some", "queue|get_status|orders*"), key_store.create("boss", "queue|*|*")
        server = keyed()
        with server.talk() as talk:
            for name in ("orders", "orders-2", "payroll"):
                talk("PUT", f"/v1/queues/{name}", {}, authorization=f"Bearer {boss}")
        person = people(server)
        person.sign_in(secret)
        body = person.get().body
        assert b"All 2" in body
        assert b"payroll" not in body


class TestNewQueue:
    def test_one_is_made_with_its_settings(self, server: ThreadServer, person: Person) -> None:
        fields = form_of(person, "/console/new-queue")
        assert fields["visibility"] == "30s"
        changed = {
            "name": " jobs ",
            "visibility": "5 min",
            "retention": "7d",
            "groups": "fifo",
            "dedup": "window",
            "dedup_window": "1h",
            "dedup_scope": "group",
            "ledger": "bodies",
            "backoff_first": "1s",
            "backoff_most": "1m",
            "labels": "team=shop\r\n\r\nnote = a = b\r\n",
        }
        reply = person.post("/console/new-queue", fields | changed)
        assert (reply.status, reply.headers["Location"]) == (303, "/console/queues/jobs")
        assert b"The queue jobs is made." in person.get(reply.headers["Location"]).body
        with server.talk() as talk:
            assert settings_of(talk, "jobs") == {
                "visibility_ms": 300_000,
                "retention_ms": 604_800_000,
                "delay_ms": 0,
                "dedup": "window",
                "redrive": None,
                "ledger": "bodies",
                "backoff": {"first_ms": 1_000, "most_ms": 60_000},
                "groups": "fifo",
                "dedup_window_ms": 3_600_000,
                "dedup_scope": "group",
                "labels": {"team": "shop", "note": "a = b"},
            }

    def test_a_name_alone_will_do(self, server: ThreadServer, person: Person) -> None:
        person.get("/console/new-queue")
        assert (
            person.post("/console/new-queue", {"name": "dedupq/x"}).headers["Location"] == "/console/queues/dedupq%2Fx"
        )
        assert person.get("/console/queues/dedupq%2Fx").status == 200
        with server.talk() as talk:
            assert settings_of(talk, "dedupq%2Fx")["visibility_ms"] == 30_000

    @pytest.mark.parametrize("name", ["", ".", "a b", "a/b", "x" * 256, *HOSTILE])
    def test_a_name_that_is_none_is_refused(self, person: Person, name: str) -> None:
        person.get("/console/new-queue")
        reply = person.post("/console/new-queue", {"name": name, "delay": "5 min"})
        assert reply.status == 422
        assert error_by(reply.body, "name").startswith("a queue name is")
        assert b'value="5 min"' in reply.body, "what was right is kept"
        assert b"<script>alert" not in reply.body
        assert b"<img src=x" not in reply.body

    def test_one_that_exists_is_refused(self, talk: Talk, person: Person) -> None:
        person.get("/console/new-queue")
        reply = person.post("/console/new-queue", {"name": "orders"})
        assert reply.status == 422
        assert error_by(reply.body, "name") == "queue 'orders' already exists"

    def test_settings_that_do_not_go_together_are_refused(self, person: Person) -> None:
        person.get("/console/new-queue")
        reply = person.post("/console/new-queue", {"name": "jobs", "groups": "fifo", "dedup": "claim"})
        assert reply.status == 422
        assert b"A queue with groups cannot deduplicate by claim." in reply.body
        assert b"<details open>" in reply.body

    def test_only_where_the_key_may(self, key_store: KeyStore, keyed: Keyed, people: People) -> None:
        secret = key_store.create("some", "queue|admin|orders*")
        person = people(keyed())
        person.sign_in(secret)
        assert person.get("/console/new-queue").status == 200
        assert person.post("/console/new-queue", {"name": "payroll"}).status == 403
        assert person.post("/console/new-queue", {"name": "orders-1"}).status == 303
        reply = person.post(
            "/console/new-queue", {"name": "orders-2", "dead_letter_queue": "orders-1", "max_receives": "3"}
        )
        assert reply.status == 422
        assert "it needs queue|post|orders-1" in error_by(reply.body, "dead_letter_queue")


class TestSettings:
    def test_only_what_was_typed_over_is_changed(self, talk: Talk, person: Person) -> None:
        fields = form_of(person, f"{PLACE}/settings")
        talk("PATCH", "/v1/queues/orders", {"delay_ms": 7_000, "labels": {"new": "one"}})
        reply = person.post(f"{PLACE}/settings", fields | {"visibility": "1 h 30 min", "labels": "team=shop"})
        assert (reply.status, reply.headers["Location"]) == (303, PLACE)
        assert b"The settings of orders are changed." in person.get(PLACE).body
        settings = settings_of(talk)
        assert settings["visibility_ms"] == 5_400_000
        assert settings["delay_ms"] == 7_000, "what somebody else has changed meanwhile stays"
        assert settings["labels"] == {"new": "one", "team": "shop"}

    def test_all_of_them_can_be_changed_and_taken_back(self, talk: Talk, person: Person) -> None:
        before = settings_of(talk)
        talk("PUT", "/v1/queues/dead", {})
        changes = {
            "visibility": "1m",
            "retention": "12h",
            "delay": "500ms",
            "dedup": "send",
            "dedup_window": "1m",
            "dedup_scope": "group",
            "dead_letter_queue": "dead",
            "max_receives": "4",
            "backoff_first": "2s",
            "backoff_most": "2s",
            "ledger": "off",
            "labels": "a=1\nb=",
        }
        fields = form_of(person, f"{PLACE}/settings")
        assert {name for name in fields if not name.startswith("was-")} == set(changes)
        assert person.post(f"{PLACE}/settings", fields | changes).status == 303
        after = settings_of(talk)
        assert all(after[name] != before[name] for name in after if name != "groups")
        assert after["redrive"] == {"max_receives": 4, "dead_letter_queue": "dead"}
        assert after["labels"] == {"a": "1", "b": ""}
        now = form_of(person, f"{PLACE}/settings")
        assert {name: now[name] for name in changes} == changes
        assert person.post(f"{PLACE}/settings", now | {name: fields[name] for name in changes}).status == 303
        assert settings_of(talk) == before

    def test_nothing_changed_is_nothing_done(self, server: ThreadServer, talk: Talk, person: Person) -> None:
        reply = person.post(f"{PLACE}/settings", form_of(person, f"{PLACE}/settings"))
        assert reply.status == 303
        assert b"Nothing was changed." in person.get(PLACE).body
        assert talk("GET", "/v1/actions").json["actions"][0]["what"] == "queue.create"

    def test_groups_cannot_be_changed(self, talk: Talk, person: Person) -> None:
        fields = form_of(person, f"{PLACE}/settings")
        assert "groups" not in fields
        reply = person.post(f"{PLACE}/settings", fields | {"groups": "fifo"})
        assert reply.status == 422
        assert b"cannot be changed" in reply.body
        assert settings_of(talk)["groups"] == "off"

    @pytest.mark.parametrize(
        ("field", "text", "why"),
        [
            ("visibility", "", "is not a duration"),
            ("visibility", "5 weeks", "'5 weeks' is not a duration; write it like"),
            ("visibility", "99999999d", "is not between 0s and forever"),
            ("retention", "0s", "0s is not between 1ms and forever"),
            ("delay", "-1s", "is not a duration"),
            ("dedup_window", "2d", "2d is not between 1s and 1d"),
            ("dedup", "sometimes", "sometimes"),
            ("ledger", "all", "all"),
            ("dedup_scope", "", "$.dedup_scope"),
            ("max_receives", "3", "name the queue"),
            ("dead_letter_queue", "dead", "must be a whole number"),
            ("dead_letter_queue", "nowhere", ""),
            ("backoff_first", "1s", "is not a duration"),
            ("backoff_most", "1s", "is not a duration"),
            ("labels", "team", "a label is written as key=value, not 'team'"),
            ("labels", "=x", "the key of a label has 1 to 128 printable characters"),
            ("labels", "aws:x=1", "reserved"),
            ("labels", "\n".join(f"k{number}=x" for number in range(51)), ""),
            ("labels", "k=" + "x" * 257, "at most 256 printable characters"),
            *(("visibility", text, "is not a duration") for text in HOSTILE),
            ("labels", HOSTILE[0], "a label is written as key=value"),
        ],
    )
    def test_bad_input_is_said_by_its_field(self, talk: Talk, person: Person, field: str, text: str, why: str) -> None:
        before = settings_of(talk)
        fields = form_of(person, f"{PLACE}/settings")
        more = {"max_receives": "3"} if text == "nowhere" else {}
        reply = person.post(
            f"{PLACE}/settings", fields | more | {field: text, "delay": text if field == "delay" else "9s"}
        )
        body = reply.body.decode()
        assert reply.status == 422
        said = " ".join(re.findall(r'class="(?:wrong|banner bad)"[^>]*>([^<]*)<', body))
        assert said
        assert why in unescape(said)
        assert settings_of(talk) == before
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert field == "delay" or 'value="9s"' in body, "what was right is kept"

    def test_backoff_grows(self, talk: Talk, person: Person) -> None:
        fields = form_of(person, f"{PLACE}/settings")
        reply = person.post(f"{PLACE}/settings", fields | {"backoff_first": "1m", "backoff_most": "30s"})
        assert error_by(reply.body, "backoff_most").startswith("30s is not between 1m and forever")

    def test_a_dead_letter_queue_needs_the_right_to_send_there(
        self, key_store: KeyStore, keyed: Keyed, people: People
    ) -> None:
        secret = key_store.create("some", "queue|admin|*", "queue|get_status|*")
        server = keyed()
        with server.talk() as talk:
            for name in ("orders", "dead"):
                talk("PUT", f"/v1/queues/{name}", {}, authorization=f"Bearer {secret}")
        person = people(server)
        person.sign_in(secret)
        fields = form_of(person, f"{PLACE}/settings")
        reply = person.post(f"{PLACE}/settings", fields | {"dead_letter_queue": "dead", "max_receives": "3"})
        assert reply.status == 422
        assert "it needs queue|post|dead" in error_by(reply.body, "dead_letter_queue")

    def test_labels_of_other_apis_are_shown_and_stay(self, server: ThreadServer, talk: Talk, person: Person) -> None:
        settings = Settings(labels={"aws:note": "<b>", "a": "1"})
        server.in_unit(lambda unit: unit.update_queue("orders", settings, server.clock()))
        fields = form_of(person, f"{PLACE}/settings")
        assert fields["labels"] == "a=1"
        assert b"aws:note=&lt;b&gt;" in person.get(f"{PLACE}/settings").body
        assert person.post(f"{PLACE}/settings", fields | {"labels": ""}).status == 303
        assert settings_of(talk)["labels"] == {"aws:note": "<b>"}


class TestQueue:
    def test_the_page_tells_of_the_queue(self, talk: Talk, person: Person) -> None:
        talk("PUT", "/v1/queues/dead", {})
        talk("PATCH", "/v1/queues/orders", {"redrive": {"max_receives": 3, "dead_letter_queue": "dead"}})
        send(talk, count=4)
        send(talk, delay_ms=3_600_000)
        talk("POST", "/v1/queues/orders/claim", {"limit": 1})
        talk("PUT", "/v1/queues/orders/shipments/etl/1", {"limit": 2})
        body = person.get(PLACE).body
        told = tiles(body)
        assert (told["Ready"], told["Delayed"], told["Claimed"]) == ("1", "1", "3")
        assert told["Sent, last hour"] == "5 5 arrived in all"
        assert told["Acked, last hour"] == "0"
        assert b'href="/console/queues/dead">dead</a> after 3 receives' in body
        assert re.search(rb'class="name">etl</th><td class="figure">1</td><td>open</td>', body)
        assert b'href="/console/queues/orders">orders</a>' in person.get("/console/queues/dead").body

    def test_its_parts_are_alive(self, talk: Talk, person: Person) -> None:
        state = person.get(f"{PLACE}?part=state", hx_request="true").body
        rest = person.get(f"{PLACE}?part=rest", hx_request="true").body
        assert b"<html" not in state + rest
        assert tiles(state)["Ready"] == "0"
        assert b"Who works on it" in rest
        send(talk)
        assert tiles(person.get(f"{PLACE}?part=state", hx_request="true").body)["Ready"] == "1"

    def test_claims_that_wait_are_told(self, server: ThreadServer, talk: Talk, person: Person) -> None:
        def wait() -> None:
            with server.talk() as other:
                other("POST", "/v1/queues/orders/claim", {"wait_ms": 60_000})

        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: b"<dt>Claims that wait</dt><dd>1</dd>" in person.get(PLACE).body)
        # Another process writes this number, once a second.
        wait_until(lambda: tiles(person.get().body)["Claims that wait"] == "1")
        send(talk)
        waiting.join()

    def test_consumers_are_told_with_their_last_sign_of_life(
        self, server: ThreadServer, talk: Talk, person: Person
    ) -> None:
        consumer = Registration("w-1", "orders", Delivery.AT_LEAST_ONCE, 600_000)
        server.in_unit(lambda unit: unit.consumers.register(consumer, server.clock()))
        body = person.get(PLACE).body.decode()
        assert re.search(
            r'class="name">w-1</th><td><time[^>]*>[^<]* ago</time></td>\s*<td><span class="pill good">', body
        )
        assert "<dt>Consumers of gq</dt><dd>1</dd>" in body

    @pytest.mark.parametrize("span", ["hour", "day"])
    @pytest.mark.parametrize(
        ("chart", "unit", "labels"),
        [
            ("depth", "count", ["Ready", "Delayed", "Claimed"]),
            ("age", "duration", ["Oldest ready"]),
            ("flow", "rate", ["Sends", "Claims", "Acks"]),
            ("trouble", "count", ["Redeliveries", "Dead letters", "Failed", "Expired"]),
        ],
    )
    def test_charts(self, talk: Talk, person: Person, span: str, chart: str, unit: str, labels: list[str]) -> None:
        send(talk, count=3)
        reply = person.get(f"{PLACE}/charts/{chart}?span={span}")
        told = reply.json
        assert told["unit"] == unit
        assert [one["label"] for one in told["series"]] == labels
        assert len(told["x"]) == {"hour": 60, "day": 144}[span]
        assert all(len(one["values"]) == len(told["x"]) for one in told["series"])
        first = told["series"][0]["values"]
        assert first[-1] == 3 if chart == "depth" else True
        assert sum(one or 0 for one in first) > 0 if chart in ("depth", "flow") else True
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.headers["Cache-Control"] == "no-store"

    def test_a_chart_that_is_none_is_refused(self, talk: Talk, person: Person) -> None:
        assert person.get(f"{PLACE}/charts/pie").status == 400
        assert person.get(f"{PLACE}/charts/depth?span=century").status == 200

    def test_pause_and_resume(self, talk: Talk, person: Person) -> None:
        send(talk)
        person.get(PLACE)
        assert person.post(f"{PLACE}/pause").headers["Location"] == PLACE
        body = person.get(PLACE).body
        assert b"orders is paused: claims find nothing" in body
        assert b"/resume" in body
        assert b"/pause" not in body
        assert row(person.get().body, "orders")[-1] == "paused"
        assert talk("POST", "/v1/queues/orders/claim", {}).json == {"messages": []}
        assert person.post(f"{PLACE}/resume").status == 303
        assert row(person.get().body, "orders")[-1] == ""
        assert len(talk("POST", "/v1/queues/orders/claim", {}).json["messages"]) == 1

    def test_all_claims_are_released(self, talk: Talk, person: Person) -> None:
        send(talk, count=3)
        talk("POST", "/v1/queues/orders/claim", {"limit": 2})
        person.get(PLACE)
        assert person.post(f"{PLACE}/release").status == 303
        body = person.get(PLACE).body
        assert b"2 claims of orders ended." in body
        assert tiles(body)["Ready"] == "3"

    def test_a_purge_asks_for_the_name(self, talk: Talk, person: Person) -> None:
        send(talk, count=3)
        assert b"3 are in it now" in person.get(f"{PLACE}/purge").body
        for confirm in ("", "order", "Orders", "orders2", HOSTILE[0]):
            reply = person.post(f"{PLACE}/purge", {"confirm": confirm})
            assert reply.status == 422
            assert "type the name of the queue" in error_by(reply.body, "confirm")
            assert b"<script>alert" not in reply.body
        assert tiles(person.get(PLACE).body)["Ready"] == "3"
        assert person.post(f"{PLACE}/purge", {"confirm": " orders "}).status == 303
        body = person.get(PLACE).body
        assert b"3 messages of orders purged." in body
        assert tiles(body)["Ready"] == "0"

    def test_only_what_is_old_can_be_purged(self, server: ThreadServer, talk: Talk, person: Person) -> None:
        send(talk, count=2)
        server.clock.advance(3600)
        send(talk, count=1)
        person.get(f"{PLACE}/purge")
        for text in ("soon", "-1s", "99999999d", HOSTILE[1]):
            reply = person.post(f"{PLACE}/purge", {"confirm": "orders", "older_than": text})
            assert reply.status == 422
            assert error_by(reply.body, "older_than")
        assert person.post(f"{PLACE}/purge", {"confirm": "orders", "older_than": "30 min"}).status == 303
        body = person.get(PLACE).body
        assert b"2 messages of orders purged." in body
        assert tiles(body)["Ready"] == "1"

    def test_so_does_a_deletion(self, talk: Talk, person: Person) -> None:
        talk("PUT", "/v1/queues/others", {"redrive": {"max_receives": 3, "dead_letter_queue": "orders"}})
        body = person.get(f"{PLACE}/delete").body
        assert b"the dead letters of <strong>others</strong>" in body
        assert person.post(f"{PLACE}/delete", {"confirm": "other"}).status == 422
        assert talk("GET", "/v1/queues/orders").status == 200
        reply = person.post(f"{PLACE}/delete", {"confirm": "orders"})
        assert (reply.status, reply.headers["Location"]) == (303, "/console")
        body = person.get().body
        assert b"The queue orders and its messages are deleted." in body
        assert b"queue-orders" not in body
        assert talk("GET", "/v1/queues/orders").status == 404

    def test_who_does_it_is_written_down(self, key_store: KeyStore, keyed: Keyed, people: People) -> None:
        secret = key_store.create("boss", "queue|*|*")
        server = keyed()
        person = people(server)
        person.sign_in(secret)
        person.get()
        person.post("/console/new-queue", {"name": "orders"})
        fields = form_of(person, f"{PLACE}/settings")
        person.post(f"{PLACE}/settings", fields | {"delay": "1s"})
        for act in ("pause", "resume", "release"):
            person.post(f"{PLACE}/{act}")
        for act in ("purge", "delete"):
            person.post(f"{PLACE}/{act}", {"confirm": "orders"})
        entries = server.in_unit(lambda unit: unit.actions.list(None, 20), write=False)
        logged = [(one.key, one.via, one.queue, one.what.value) for one in entries]
        done = [what for key, via, queue, what in logged if (key, via, queue) == ("boss", "console", "orders")]
        expected = ["create", "update", "pause", "resume", "purge", "delete"]
        assert [what for what in reversed(done) if "release" not in what] == [f"queue.{one}" for one in expected]

    @pytest.mark.parametrize(
        "path",
        ["", "/settings", "/purge", "/delete", "/charts/depth", "?part=state", "?part=rest"],
    )
    def test_one_that_was_deleted_meanwhile_has_a_page(self, talk: Talk, person: Person, path: str) -> None:
        assert person.get(PLACE + path).status == 200
        talk("DELETE", "/v1/queues/orders")
        for headers in ({}, {"hx_request": "true"}):
            reply = person.get(PLACE + path, **headers)
            assert reply.status == 404
            assert b"Queue &#39;orders&#39; does not exist." in reply.body

    @pytest.mark.parametrize("act", ["settings", "pause", "resume", "release", "purge", "delete"])
    def test_nothing_can_be_done_to_it_any_more(self, talk: Talk, person: Person, act: str) -> None:
        fields = form_of(person, f"{PLACE}/settings") | {"confirm": "orders", "delay": "1s"}
        talk("DELETE", "/v1/queues/orders")
        reply = person.post(f"{PLACE}/{act}", fields)
        assert reply.status == 404
        assert b"does not exist" in reply.body

    @pytest.mark.parametrize("act", ["settings", "pause", "resume", "release", "purge", "delete"])
    def test_a_store_that_is_away_is_said(
        self, server: ThreadServer, talk: Talk, person: Person, act: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fields = form_of(person, f"{PLACE}/settings") | {"confirm": "orders", "delay": "1s"}
        monkeypatch.setattr(server.store, "unit", away(StoreUnavailable("the database does not answer")), raising=False)
        for reply in (person.get(PLACE), person.post(f"{PLACE}/{act}", fields)):
            assert reply.status == 503
            assert b"The database does not answer." in reply.body
        assert person.get(f"{PLACE}/charts/depth", hx_request="true").status == 503
        monkeypatch.undo()
        assert person.get(PLACE).status == 200

    def test_what_the_key_may_not_do_is_not_offered(self, key_store: KeyStore, keyed: Keyed, people: People) -> None:
        boss = key_store.create("boss", "queue|*|*")
        looker = key_store.create("looker", "queue|get_status|orders")
        server = keyed()
        with server.talk() as talk:
            bearer = {"authorization": f"Bearer {boss}"}
            for name in ("orders", "secret-dead"):
                talk("PUT", f"/v1/queues/{name}", {}, **bearer)
            talk("PUT", "/v1/queues/secret", {"redrive": {"max_receives": 1, "dead_letter_queue": "orders"}}, **bearer)
            redrive = {"redrive": {"max_receives": 1, "dead_letter_queue": "secret-dead"}}
            talk("PATCH", "/v1/queues/orders", redrive, **bearer)
            talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "x"}]}, **bearer)
            talk("PUT", "/v1/queues/orders/shipments/etl/1", {"limit": 2}, **bearer)
        person, other = people(server), people(server)
        person.sign_in(looker)
        other.sign_in(boss)
        offers = [
            b"/pause",
            b"/purge",
            b"/delete",
            b"/release",
            b"/settings",
            b'queues/secret-dead"',
            b'secret"',
        ]
        seen, all_of_it = person.get(PLACE).body, other.get(PLACE).body
        for offer in offers:
            assert offer not in seen, offer
            assert offer in all_of_it, offer
        assert b"<dt>Open shipments</dt><dd>1</dd>" in seen
