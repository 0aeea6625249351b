"""Moves under `/v1`: start, count first, watch, cancel, and dead letters on their way home."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import keys, limits
from penstock.model import Key, Settings
from penstock.stores import open_store
from tests.faces.native.conftest import STORES, Native, bodies
from tests.servers import ThreadServer
from tests.waiting import wait_until


def start(native: Native, **asked: Any) -> dict[str, Any]:
    reply = native.talk("POST", "/v1/moves", asked)
    assert reply.status == 201, reply.body
    return reply.json


def end(native: Native, move: dict[str, Any]) -> dict[str, Any]:
    wait_until(lambda: native.talk("GET", f"/v1/moves/{move['id']}").json["status"] != "in-progress")
    return native.talk("GET", f"/v1/moves/{move['id']}").json


@pytest.fixture
def dead(native: Native) -> Native:
    """With dead letters from `q` in `dead`."""
    native.create("dead")
    native.talk("PATCH", "/v1/queues/q", {"redrive": {"max_receives": 1, "dead_letter_queue": "dead"}})
    native.send('{"n": 1}', '{"n": 2}')
    native.claim(limit=2, hold_ms=0)
    assert native.claim(limit=2) == []
    return native


def test_everything_moves(native: Native) -> None:
    native.create("there")
    native.send(*(str(number) for number in range(2_500)))
    started = start(native, source="q", target="there")
    assert (started["status"], started["filter"], started["finished_at"]) == ("in-progress", {}, None)
    ended = end(native, started)
    assert (ended["status"], ended["moved"], ended["examined"], ended["matched"]) == ("complete", 2_500, 2_500, 2_500)
    assert (native.count()["total"], native.count("there")["total"]) == (0, 2_500)
    assert native.talk("GET", "/v1/moves").json == {"moves": [ended]}


def test_between_queues_of_two_apis(native: Native) -> None:
    native.create("dedupq%2Ftwins", dedup="claim")
    native.send("x")
    assert end(native, start(native, source="q", target="dedupq/twins"))["moved"] == 1


def test_a_filter(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    native.create("there")
    native.send({"body": '{"kind": "a"}', "content_type": "application/json"}, '{"kind": "a"}')
    server.clock.advance(10)
    native.send({"body": '{"kind": "a"}', "content_type": "application/json"}, "a b")
    conditions = {
        "older_than_ms": 5_000,
        "newer_than_ms": 3_600_000,
        "min_receives": 0,
        "max_receives": 0,
        "content_type": "application/json",
        "text": "kind",
        "json": {"path": "$.kind", "value": "a"},
    }
    moved = end(native, start(native, source="q", target="there", filter=conditions))
    assert (moved["examined"], moved["matched"], moved["moved"]) == (4, 1, 1)
    assert moved["filter"]["sent_until"] - moved["filter"]["sent_since"] == 3_600_000 - 5_000 - 1
    assert native.count()["total"] == 3


def test_a_dry_run_counts_and_moves_nothing(native: Native) -> None:
    native.create("there")
    native.send("a", "b", "ab")
    counted = end(native, start(native, source="q", target="there", filter={"text": "a"}, dry_run=True))
    assert (counted["dry_run"], counted["examined"], counted["matched"], counted["moved"]) == (True, 3, 2, 0)
    assert native.count()["total"] == 3


def test_dead_letters_go_home(dead: Native) -> None:
    dead.send("sent here", to="dead")
    assert [message["came_from"] for message in dead.peek(queue="dead")["messages"]] == ["q", "q", None]
    moved = end(dead, start(dead, source="dead"))
    assert (moved["target"], moved["moved"], moved["homeless"]) == (None, 2, 1)
    home = dead.claim(limit=10)
    assert (bodies(home), {message["came_from"] for message in home}) == (['{"n": 1}', '{"n": 2}'], {None})


@pytest.mark.parametrize("store", STORES)
def test_who_arrives_as_new(dead: Native, server: ThreadServer) -> None:
    """A message that goes home would otherwise be older than its retention when it arrives."""
    dead.create("there")
    first = dead.peek(queue="dead")["messages"]
    server.clock.advance(60)
    for asked, is_new in (
        ({"source": "dead", "limit": 1}, True),
        ({"source": "dead", "limit": 1, "as_new": False}, False),
        ({"source": "q", "target": "there"}, False),
        ({"source": "there", "target": "dead", "as_new": True}, True),
    ):
        before = {message["id"]: message for queue in ("q", "dead", "there") for message in peeked(dead, queue)}
        moved = end(dead, start(dead, **asked))
        assert (moved["as_new"], moved["status"]) == (is_new, "complete")
        after = {message["id"]: message for queue in ("q", "dead", "there") for message in peeked(dead, queue)}
        arrived = [after[one] for one in after.keys() - before.keys()]
        assert len(arrived) == (moved["moved"] if is_new else 0)
        assert all(message["sent_at"] >= first[0]["sent_at"] + 60_000 for message in arrived)
        assert {(message["came_from"], message["receives"], message["first_claimed_at"]) for message in arrived} <= {
            (None, 0, None)
        }


def peeked(native: Native, queue: str) -> list[dict[str, Any]]:
    return native.peek(queue=queue)["messages"]


@pytest.mark.parametrize("store", STORES)
def test_a_dead_letter_goes_home_although_it_is_older_than_its_queue_keeps_messages(
    dead: Native, server: ThreadServer
) -> None:
    dead.talk("PATCH", "/v1/queues/q", {"retention_ms": 60_000})
    server.clock.advance(90)
    assert end(dead, start(dead, source="dead"))["moved"] == 2
    assert bodies(dead.claim(limit=10)) == ['{"n": 1}', '{"n": 2}']


@pytest.mark.parametrize("store", STORES)
def test_how_many_messages_there_were(native: Native) -> None:
    native.create("there")
    native.send(*"abc", {"body": "d", "delay_ms": 60_000})
    native.claim()
    started = start(native, source="q", target="there", limit=1)
    assert (started["total"], end(native, started)["total"]) == (4, 4)
    assert end(native, start(native, source="q", target="there", dry_run=True))["total"] == 3


def test_a_list_of_the_moves_from_one_queue(native: Native) -> None:
    for name in ("there", "elsewhere"):
        native.create(name)
    moves = [end(native, start(native, source=source, target="elsewhere")) for source in ("q", "there", "q")]

    def listed(query: str) -> list[str]:
        return [move["id"] for move in native.talk("GET", f"/v1/moves?{query}").json["moves"]]

    assert set(listed("source=q")) == {moves[0]["id"], moves[2]["id"]}
    assert listed("source=there&limit=1") == [moves[1]["id"]]
    assert len(listed("source=q&limit=1")) == 1
    assert listed("source=elsewhere") == listed("source=nowhere") == listed("source=") == []


def test_a_pace_and_a_cancel(native: Native) -> None:
    native.create("there")
    native.send(*(str(number) for number in range(50)))
    started = start(native, source="q", target="there", per_second=1)
    assert native.talk("POST", "/v1/moves", {"source": "q", "target": "there"}).status == 409

    def found() -> dict[str, Any]:
        return native.talk("GET", f"/v1/moves/{started['id']}").json

    wait_until(lambda: found()["moved"])
    assert found()["status"] == "in-progress"
    cancelled = native.talk("POST", f"/v1/moves/{started['id']}/cancel").json
    assert (cancelled["status"], cancelled["per_second"]) == ("cancelled", 1)
    assert 0 < cancelled["moved"] < 50
    assert native.talk("POST", f"/v1/moves/{started['id']}/cancel").json == cancelled
    assert native.count("there")["total"] == cancelled["moved"]
    assert end(native, start(native, source="q", target="there"))["status"] == "complete"


def test_a_pace_comes_to_its_end(native: Native) -> None:
    native.create("there")
    native.send(*(str(number) for number in range(40)))
    moved = end(native, start(native, source="q", target="there", per_second=100, filter={"min_receives": 0}))
    assert moved["moved"] == 40
    assert moved["finished_at"] - moved["started_at"] >= 300


def test_a_limit(native: Native) -> None:
    native.create("there")
    native.send("1", "2", "3")
    assert end(native, start(native, source="q", target="there", limit=2))["moved"] == 2
    assert bodies(native.claim(limit=10)) == ["3"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"target": "there"},
        {"source": 1, "target": "there"},
        {"source": "q", "target": "q"},
        {"source": "q", "target": "there", "unknown": 1},
        {"source": "q", "target": "there", "limit": 0},
        {"source": "q", "target": "there", "per_second": 0},
        {"source": "q", "target": "there", "per_second": limits.MOVES_PER_SECOND + 1},
        {"source": "q", "target": "there", "per_second": 1.5},
        {"source": "q", "target": "there", "dry_run": 1},
        {"source": "q", "target": "there", "as_new": "yes"},
        {"source": "q", "as_new": 1},
        {"source": "q", "action": "destroy"},
        {"source": "q", "action": "MOVE"},
        {"source": "q", "action": None},
        {"source": "q", "action": "delete", "target": "there"},
        {"source": "q", "action": "release", "target": "there"},
        {"source": "q", "action": "delete", "as_new": True},
        {"source": "q", "action": "release", "claimed": 1},
    ],
)
def test_a_bad_request(native: Native, asked: dict[str, Any]) -> None:
    native.create("there")
    reply = native.talk("POST", "/v1/moves", asked)
    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert native.talk("GET", "/v1/moves").json == {"moves": []}


@pytest.mark.parametrize(
    "conditions",
    [
        {"older_than_ms": -1},
        {"newer_than_ms": limits.DURATION_MS + 1},
        {"min_receives": -1},
        {"max_receives": 2**31},
        {"content_type": ""},
        {"content_type": "x" * 256},
        {"text": ""},
        {"text": "x" * (limits.FILTER_TEXT_LENGTH + 1)},
        {"json": {"path": "$.a"}},
        {"json": {"value": 1}},
        {"json": {"path": "a", "value": 1}},
        {"json": {"path": "$.a", "value": []}},
        {"json": {"path": "$.a", "value": 2**63}},
        {"json": {"path": "$.a", "value": "x" * (limits.FILTER_TEXT_LENGTH + 1)}},
        {"state": "lost"},
        {"state": ["ready"]},
        {"attribute": "kind"},
        {"attribute": {}},
        {"attribute": {"name": ""}},
        {"attribute": {"name": "x" * (limits.FILTER_TEXT_LENGTH + 1)}},
        {"attribute": {"name": "kind", "value": 1}},
        {"attribute": {"name": "kind", "value": "x" * (limits.FILTER_TEXT_LENGTH + 1)}},
        {"attribute": {"name": "kind", "other": 1}},
        {"unknown": 1},
        [],
    ],
)
def test_a_bad_filter(native: Native, conditions: object) -> None:
    native.create("there")
    reply = native.talk("POST", "/v1/moves", {"source": "q", "target": "there", "filter": conditions})
    assert (reply.status, list(reply.json)) == (400, ["error"])


def test_queues_and_moves_that_are_not_there(native: Native) -> None:
    for asked in ({"source": "q", "target": "none"}, {"source": "none", "target": "q"}, {"source": "none"}):
        reply = native.talk("POST", "/v1/moves", asked)
        assert (reply.status, reply.json) == (404, {"error": "queue 'none' does not exist"})
    for method, path in (("GET", "/v1/moves/none"), ("POST", "/v1/moves/none/cancel")):
        assert native.talk(method, path).json == {"error": "there is no move 'none'"}


def test_emodb_keeps_its_three_words_and_knows_nothing_of_homes(native: Native) -> None:
    native.create("there")
    native.send(*(str(number) for number in range(600)))
    started = start(native, source="q", target="there", per_second=1)
    native.talk("POST", f"/v1/moves/{started['id']}/cancel")
    told = native.talk("GET", f"/queue/1/_move/{started['id']}").json
    assert told == {"from": "q", "to": "there", "status": "ERROR"}
    for asked in (
        {"source": "q"},
        {"source": "q", "target": "there", "dry_run": True},
        {"source": "q", "action": "release"},
        {"source": "q", "action": "delete", "filter": {"text": "x"}},
    ):
        move = end(native, start(native, **asked))
        assert native.talk("GET", f"/queue/1/_move/{move['id']}").status == 404


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        (["queue|poll|q", "queue|post|*"], 201),
        (["queue|poll|q", "queue|post|q*"], 403),
        (["queue|post|*"], 403),
    ],
)
def test_who_may_send_dead_letters_home(tmp_path, rules: list[str], status: int) -> None:
    assert asked_with(tmp_path, rules, {"source": "q"}) == status


@pytest.mark.parametrize("action", ["delete", "release"])
@pytest.mark.parametrize(("rule", "status"), [("queue|poll|q", 201), ("queue|post|q", 403), ("queue|poll|r", 403)])
def test_who_may_delete_and_release(tmp_path, action: str, rule: str, status: int) -> None:
    assert asked_with(tmp_path, [rule], {"source": "q", "action": action}) == status


def asked_with(folder: Path, rules: list[str], asked: dict[str, Any]) -> int:
    """The status of a request with a key that has these rules."""
    url = f"sqlite:///{folder}/keys.db"
    store, secret = open_store(url), keys.mint()
    with store.unit() as unit:
        unit.keys.create(Key("k", keys.digest(store.secret, secret.encode()), tuple(rules), 0))
        unit.create_queue("q", Settings(), 1)
    store.close()
    server = ThreadServer(url)
    try:
        with server.talk() as talk:
            return talk("POST", "/v1/moves", asked, authorization=f"Bearer {secret}").status
    finally:
        server.stop()


def test_what_is_selected_is_deleted(native: Native) -> None:
    native.send("1", {"body": "2", "attributes": {"kind": "test"}}, {"body": "3", "attributes": {"kind": "other"}})
    conditions = {"attribute": {"name": "kind", "value": "test"}, "state": "ready"}
    started = start(native, source="q", action="delete", filter=conditions)
    assert (started["action"], started["target"], started["claimed"], started["as_new"]) == (
        "delete",
        None,
        False,
        False,
    )
    assert started["filter"] == conditions
    ended = end(native, started)
    assert (ended["status"], ended["examined"], ended["matched"], ended["moved"]) == ("complete", 3, 1, 1)
    assert bodies(native.peek()["messages"]) == ["1", "3"]
    assert [row["outcome"] for row in native.talk("GET", "/v1/ledger").json["rows"]] == ["purged"]


def test_what_is_claimed_stays_unless_it_is_asked_for(native: Native) -> None:
    native.send("1", "2", "3")
    native.claim(limit=2)
    assert end(native, start(native, source="q", action="delete"))["moved"] == 1
    assert (
        end(native, start(native, source="q", action="delete", filter={"state": "claimed", "text": "2"}))["moved"] == 1
    )
    assert end(native, start(native, source="q", action="delete", claimed=True))["moved"] == 1


def test_claims_end(native: Native) -> None:
    native.send("1", "2", "3")
    native.claim(limit=2)
    counted = end(native, start(native, source="q", action="release", dry_run=True))
    assert (counted["matched"], counted["moved"], native.count()["claimed"]) == (2, 0, 2)
    assert end(native, start(native, source="q", action="release", filter={"text": "2"}))["moved"] == 1
    assert bodies(native.claim(limit=10)) == ["2", "3"]
