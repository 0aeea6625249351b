"""Queues under `/v1`: create, show, list, update, delete."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock import limits
from penstock.limits import Limits
from penstock.model import Settings
from penstock.stores import open_store
from tests.faces.native.conftest import Native
from tests.servers import ThreadServer
from tests.talk import Talk

DEFAULTS = {
    "visibility_ms": 30_000,
    "retention_ms": limits.DURATION_MS,
    "delay_ms": 0,
    "dedup": "off",
    "redrive": None,
    "ledger": "outcomes",
    "backoff": None,
    "groups": "off",
    "dedup_window_ms": 300_000,
    "dedup_scope": "queue",
    "labels": {},
}


def test_create_with_an_empty_body_takes_the_defaults(server: ThreadServer, talk: Talk) -> None:
    before = server.clock()
    reply = talk("PUT", "/v1/queues/q")
    assert reply.status == 201
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json["name"] == "q"
    assert reply.json["settings"] == DEFAULTS
    assert before <= reply.json["created_at"] <= server.clock()
    assert reply.json["modified_at"] == reply.json["created_at"]


def test_create_with_every_setting(native: Native) -> None:
    settings = {
        "visibility_ms": 0,
        "retention_ms": 1,
        "delay_ms": limits.DURATION_MS,
        "dedup": "claim",
        "redrive": {"max_receives": 3, "dead_letter_queue": "q"},
        "ledger": "bodies",
        "backoff": {"first_ms": 5, "most_ms": 6},
        "groups": "off",
        "dedup_window_ms": 1_000,
        "dedup_scope": "group",
        "labels": {"team": "payments"},
    }
    assert native.create("all", **settings).json["settings"] == settings
    assert native.talk("GET", "/v1/queues/all").json["settings"] == settings


def test_a_queue_is_created_once(native: Native) -> None:
    reply = native.create("q", delay_ms=5)
    assert reply.status == 409
    assert "already exists" in reply.json["error"]
    assert native.talk("GET", "/v1/queues/q").json["settings"] == DEFAULTS


def test_show_counts_by_state(server: ThreadServer, native: Native) -> None:
    native.send("a", "b", {"body": "c", "delay_ms": 60_000})
    native.claim()
    count = native.count()
    assert server.clock() - 60_000 < count.pop("oldest_sent_at") <= server.clock()
    assert server.clock() - 60_000 < count.pop("oldest_ready_sent_at") <= server.clock()
    assert count == {"total": 3, "ready": 1, "delayed": 1, "claimed": 1, "exact": True}


def test_list_counts_by_state(native: Native) -> None:
    native.send("a", "b", {"body": "c", "delay_ms": 60_000})
    native.claim()
    native.create("empty")
    one, empty = native.talk("GET", "/v1/queues").json["queues"]
    assert one["count"] == native.count()
    assert (one["count"]["ready"], one["count"]["delayed"], one["count"]["claimed"]) == (1, 1, 1)
    assert empty["count"] == {
        "total": 0,
        "ready": 0,
        "delayed": 0,
        "claimed": 0,
        "exact": True,
        "oldest_sent_at": None,
        "oldest_ready_sent_at": None,
    }


def test_list_without_counts(native: Native) -> None:
    assert "count" not in native.talk("GET", "/v1/queues?count=false").json["queues"][0]
    assert "count" in native.talk("GET", "/v1/queues?count=true").json["queues"][0]
    assert native.talk("GET", "/v1/queues?count=0").json["error"] == "count must be true or false"


@pytest.mark.parametrize("limits", [Limits(count_rows=1, listed_count_rows=2)])
def test_a_list_of_queues_full_of_claims_is_counted_in_steps(native: Native) -> None:
    """Each step looks at so many rows; the answer has the counts of every queue all the same."""
    for n in range(50):
        native.create(f"q{n}")
        native.send(*"abc", to=f"q{n}")
        native.claim(queue=f"q{n}", limit=3)
    counts = [queue["count"] for queue in native.talk("GET", "/v1/queues?offset=1").json["queues"]]
    assert [(count["total"], count["claimed"], count["exact"]) for count in counts] == [(3, 2, False)] * 50


def test_list_is_in_creation_order_with_offset_and_limit(native: Native) -> None:
    for name in ("zebra", "apple"):
        native.create(name)

    def listed(query: str) -> list[str]:
        reply = native.talk("GET", f"/v1/queues{query}")
        assert (reply.status, reply.json["total"]) == (200, 3)
        return [queue["name"] for queue in reply.json["queues"]]

    assert listed("") == ["q", "zebra", "apple"]
    assert listed("?offset=1&limit=1") == ["zebra"]
    assert listed("?offset=99") == []
    assert native.talk("GET", "/v1/queues").json["queues"][0]["settings"] == DEFAULTS


@pytest.mark.parametrize(
    "query",
    [
        "offset=a",
        "offset=-1",
        "offset=1.5",
        f"offset={'9' * 19}",
        f"offset={'9' * 5000}",
        "limit=",
        "limit=0",
        "limit=10001",
        "limit=-1",
        "limit=1_0",
        "limit=%2B1",
        "limit=%D9%A3",
    ],
)
def test_list_wants_numbers_in_range(talk: Talk, query: str) -> None:
    reply = talk("GET", f"/v1/queues?{query}")
    assert reply.status == 400
    assert query.partition("=")[0] in reply.json["error"]


def test_delete_takes_the_messages_along(native: Native) -> None:
    native.send("gone")
    [message] = native.claim()
    reply = native.talk("DELETE", "/v1/queues/q")
    assert (reply.status, reply.json["name"]) == (200, "q")
    assert native.talk("DELETE", "/v1/queues/q").status == 404
    assert native.done("ack", message["receipt"]) == [False]
    native.create()
    assert native.claim() == []


# Updates


def test_an_update_changes_what_it_names_and_nothing_else(native: Native) -> None:
    native.create("dead")
    redrive = {"max_receives": 2, "dead_letter_queue": "dead"}
    changes: list[dict[str, Any]] = [
        {"visibility_ms": 1},
        {"retention_ms": 5_000},
        {"delay_ms": 7},
        {"dedup": "send"},
        {"redrive": redrive},
        {"ledger": "off"},
        {"backoff": {"first_ms": 1, "most_ms": 1}},
        {"backoff": None},
        {"groups": "off"},
        {"dedup": "window"},
        {"dedup_window_ms": 86_400_000},
        {"dedup_scope": "group"},
        {"labels": {"team": "payments"}},
    ]
    expected = dict(DEFAULTS)
    for change in changes:
        expected |= change
        reply = native.talk("PATCH", "/v1/queues/q", change)
        assert (reply.status, reply.json["settings"]) == (200, expected)
    assert native.talk("PATCH", "/v1/queues/q", {}).json["settings"] == expected
    assert native.talk("PATCH", "/v1/queues/q").json["settings"] == expected
    assert native.talk("GET", "/v1/queues/q").json["settings"] == expected


def test_null_ends_the_redrive_and_leaving_it_out_keeps_it(native: Native) -> None:
    redrive = {"max_receives": 2, "dead_letter_queue": "q"}
    native.create("source", redrive=redrive)
    assert native.talk("PATCH", "/v1/queues/source", {"delay_ms": 1}).json["settings"]["redrive"] == redrive
    assert native.talk("PATCH", "/v1/queues/source", {"redrive": None}).json["settings"]["redrive"] is None


def test_a_refused_update_changes_nothing(native: Native) -> None:
    reply = native.talk(
        "PATCH", "/v1/queues/q", {"delay_ms": 9, "redrive": {"max_receives": 0, "dead_letter_queue": "q"}}
    )
    assert reply.status == 400
    reply = native.talk(
        "PATCH", "/v1/queues/q", {"delay_ms": 9, "redrive": {"max_receives": 1, "dead_letter_queue": "no"}}
    )
    assert reply.status == 400
    assert "dead-letter queue 'no' does not exist" in reply.json["error"]
    assert native.talk("GET", "/v1/queues/q").json["settings"] == DEFAULTS


def test_a_change_of_settings_is_dated(server: ThreadServer, native: Native) -> None:
    made = native.talk("GET", "/v1/queues/q").json
    server.clock.advance(60)
    changed = native.talk("PATCH", "/v1/queues/q", {"delay_ms": 1}).json
    assert changed["created_at"] == made["created_at"] == made["modified_at"]
    assert changed["modified_at"] >= made["modified_at"] + 60_000
    assert native.talk("GET", "/v1/queues").json["queues"][0]["modified_at"] == changed["modified_at"]


def test_labels_change_one_by_one(native: Native) -> None:
    native.create("labelled", labels={"team": "payments", "stage": "test", "not there": None})

    def labels(**change: str | None) -> dict[str, str]:
        return native.talk("PATCH", "/v1/queues/labelled", {"labels": change}).json["settings"]["labels"]

    assert labels() == {"team": "payments", "stage": "test"}
    assert labels(stage="live", région="Zürich", empty="") == {
        "team": "payments", "stage": "live", "région": "Zürich", "empty": "",
    }  # fmt: skip
    assert labels(team=None, empty=None, unknown=None) == {"stage": "live", "région": "Zürich"}
    assert native.talk("PATCH", "/v1/queues/labelled", {"delay_ms": 1}).json["settings"]["labels"] == labels()


def test_labels_at_their_limits(native: Native) -> None:
    largest = {f"{number:02}" + "k" * 126: "é" * 256 for number in range(limits.LABELS)}
    assert native.create("labelled", labels=largest).json["settings"]["labels"] == largest
    reply = native.talk("PATCH", "/v1/queues/labelled", {"labels": {"one": "more"}})
    assert (reply.status, reply.json) == (400, {"error": "a queue has at most 50 labels"})
    one = next(iter(largest))
    reply = native.talk("PATCH", "/v1/queues/labelled", {"labels": {"one": "more", one: None}})
    assert (reply.status, len(reply.json["settings"]["labels"])) == (200, limits.LABELS)


def test_labels_of_another_api_are_shown_and_left_alone(server: ThreadServer, native: Native) -> None:
    reserved = {f"aws:{number}": "x" * 1_000 for number in range(limits.LABELS)}
    with closing(open_store(server.store.url)) as store, store.unit() as unit:
        unit.create_queue("theirs", Settings(labels=reserved), 1)
    assert native.talk("GET", "/v1/queues/theirs").json["settings"]["labels"] == reserved
    changed = native.talk("PATCH", "/v1/queues/theirs", {"labels": {"mine": "x"}}).json["settings"]["labels"]
    assert changed == {**reserved, "mine": "x"}
    reply = native.talk("PATCH", "/v1/queues/theirs", {"labels": {"aws:1": None}})
    assert (reply.status, reply.json) == (400, {"error": "labels that begin with aws: are reserved: 'aws:1'"})


def test_groups_are_chosen_when_a_queue_is_made(native: Native) -> None:
    assert native.create("line", groups="fifo").json["settings"]["groups"] == "fifo"
    for queue, groups in (("line", "off"), ("q", "fifo")):
        reply = native.talk("PATCH", f"/v1/queues/{queue}", {"groups": groups, "delay_ms": 5})
        assert (reply.status, list(reply.json)) == (400, ["error"])
        assert "chosen when it is made" in reply.json["error"]
    assert native.talk("PATCH", "/v1/queues/line", {"groups": "fifo", "delay_ms": 5}).status == 200
    assert native.talk("PATCH", "/v1/queues/line", {"dedup": "claim"}).status == 400
    assert native.talk("GET", "/v1/queues/q").json["settings"] == DEFAULTS


# Refusals

BAD_SETTINGS: list[Any] = [
    {"visibility_ms": -1},
    {"visibility_ms": limits.DURATION_MS + 1},
    {"visibility_ms": "1"},
    {"visibility_ms": 1.5},
    {"visibility_ms": True},
    {"visibility_ms": None},
    {"visibility_ms": 10**30},
    {"retention_ms": 0},
    {"delay_ms": -1},
    {"dedup": "sometimes"},
    {"dedup": None},
    {"dedup": 1},
    {"groups": "line"},
    {"groups": None},
    {"groups": True},
    {"groups": "fifo", "dedup": "claim"},
    {"dedup_window_ms": 999},
    {"dedup_window_ms": 86_400_001},
    {"dedup_window_ms": 10**30},
    {"dedup_window_ms": "1000"},
    {"dedup_window_ms": None},
    {"dedup_scope": "message"},
    {"dedup_scope": None},
    {"labels": None},
    {"labels": []},
    {"labels": {"team": 1}},
    {"labels": {"": "x"}},
    {"labels": {"x" * 129: "x"}},
    {"labels": {"team": "x" * 257}},
    {"labels": {"team": "\0"}},
    {"labels": {"te\nam": "x"}},
    {"labels": {"aws:team": "x"}},
    {"labels": {"aws:team": None}},
    {"labels": {"team": {"of": "x"}}},
    {"labels": {f"label-{number}": "" for number in range(51)}},
    {"ledger": "all"},
    {"redrive": {}},
    {"redrive": "dead"},
    {"redrive": {"max_receives": 0, "dead_letter_queue": "q"}},
    {"redrive": {"max_receives": 2**31, "dead_letter_queue": "q"}},
    {"redrive": {"max_receives": 1}},
    {"redrive": {"max_receives": 1, "dead_letter_queue": None}},
    {"redrive": {"max_receives": 1, "dead_letter_queue": "q", "unknown": 1}},
    {"redrive": {"max_receives": 1, "dead_letter_queue": "nowhere"}},
    {"unknown": 1},
    [],
]


@pytest.mark.parametrize("settings", BAD_SETTINGS, ids=str)
def test_settings_that_do_not_fit_are_refused(native: Native, settings: Any) -> None:
    for method, path in (("PUT", "/v1/queues/new"), ("PATCH", "/v1/queues/q")):
        reply = native.talk(method, path, settings)
        assert reply.status == 400, reply.body
        assert reply.json["error"]
    assert native.talk("GET", "/v1/queues/new").status == 404


@pytest.mark.parametrize(
    "name", [".", "..", "%2e", "a%2Fb", "a%00b", "x" * 256, "%C3%A9", "a%20b", "a%0D%0Ab", "%F0%9F%90%9F"]
)
def test_hostile_names_are_refused_and_make_no_queue(talk: Talk, name: str) -> None:
    reply = talk("PUT", f"/v1/queues/{name}", {})
    assert reply.status == 400
    assert "name" in reply.json["error"]
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        ("POST", "/messages", {"messages": [{"body": "x"}]}),
        ("GET", "/messages", None),
        ("POST", "/claim", {}),
        ("POST", "/purge", None),
    ):
        assert talk(method, f"/v1/queues/{name}{path}", body).status == 404
    assert talk("GET", "/v1/queues").json["total"] == 0


@pytest.mark.parametrize("path", ["%", "%g1", "a%2", "%FF"])
def test_an_escape_that_is_none_is_refused(talk: Talk, path: str) -> None:
    assert talk("PUT", f"/v1/queues/{path}", {}).status == 400


def test_an_escaped_name_is_the_name_itself(native: Native) -> None:
    assert native.create("or%64ers%2Ev1%3A%40-_").json["name"] == "orders.v1:@-_"
    native.send("x", to="orders.v1:@-_")
    assert native.count("%6Frders.v1%3a@-_")["total"] == 1
    assert native.create("orders.v1:@-_").status == 409


def test_the_name_space_of_emodb_can_be_named_and_no_other(native: Native) -> None:
    assert native.create("dedupq%2Fx").json["name"] == "dedupq/x"
    native.send("x", to="dedupq%2Fx")
    assert native.claim("dedupq%2Fx")[0]["queue"] == "dedupq/x"
    for name in ("dedupq%2F", "dedupq%2F..", "dedupq%2Fa%2Fb", "dedupq%2Fdedupq%2Fx", "other%2Fx", "%2Fx"):
        assert native.create(name).status == 400
    assert native.talk("GET", "/v1/queues").json["total"] == 2


def test_a_name_at_the_length_limit_works(native: Native) -> None:
    name = "x" * 255
    assert native.create(name).status == 201
    native.send("x", to=name)
    assert native.claim(name)[0]["queue"] == name


def test_settings_that_are_too_large_are_refused(talk: Talk) -> None:
    assert talk("PUT", "/v1/queues/q", b'{"padding": "' + b"x" * 300_000 + b'"}').status == 413


def test_head_answers_as_get_without_a_body(native: Native) -> None:
    for path in ("/v1/queues", "/v1/queues/q", "/v1/queues/q/messages"):
        got, head = native.talk("GET", path), native.talk("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == got.headers["Content-Length"]
    assert native.talk("HEAD", "/v1/queues/nowhere").status == 404


def test_a_backoff_delays_what_comes_back(native: Native, server: ThreadServer) -> None:
    server.clock.stop()
    native.create("patient", visibility_ms=10_000, backoff={"first_ms": 5_000, "most_ms": 60_000})
    native.send("x", to="patient")
    [message] = native.claim("patient")
    assert native.done("release", message["receipt"], queue="patient") == [True]
    assert (native.claim("patient"), native.count("patient")["delayed"]) == ([], 1)
    server.clock.advance(5)
    assert native.claim("patient")[0]["receives"] == 2
    server.clock.advance(10)
    assert (native.claim("patient"), native.count("patient")["delayed"]) == ([], 1)
    server.clock.advance(10)
    assert native.claim("patient")[0]["receives"] == 3


@pytest.mark.parametrize(
    "backoff",
    [
        {},
        {"first_ms": 1},
        {"first_ms": 0, "most_ms": 1},
        {"first_ms": 2, "most_ms": 1},
        {"first_ms": 1, "most_ms": limits.DURATION_MS + 1},
        {"first_ms": "1", "most_ms": 2},
        {"first_ms": 1, "most_ms": 2, "factor": 2},
        1_000,
    ],
)
def test_a_bad_backoff(native: Native, backoff: object) -> None:
    reply = native.talk("PATCH", "/v1/queues/q", {"backoff": backoff})
    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert native.talk("GET", "/v1/queues/q").json["settings"] == DEFAULTS


def test_pause_and_resume(native: Native) -> None:
    native.send("x")
    paused = native.talk("POST", "/v1/queues/q/pause")
    assert paused.status == 200
    since = paused.json["paused_at"]
    assert since >= paused.json["created_at"]
    assert native.talk("GET", "/v1/queues/q").json["paused_at"] == since
    assert [one["paused_at"] for one in native.talk("GET", "/v1/queues?count=false").json["queues"]] == [since]
    assert native.talk("POST", "/v1/queues/q/pause").json == paused.json
    assert native.claim() == []
    assert native.count()["ready"] == 1
    resumed = native.talk("POST", "/v1/queues/q/resume")
    assert resumed.json == {**paused.json, "paused_at": None}
    assert native.talk("POST", "/v1/queues/q/resume").json == resumed.json
    assert len(native.claim()) == 1


def test_pause_and_resume_are_written_down(native: Native, tmp_path: Path) -> None:
    for verb in ("pause", "resume"):
        native.talk("POST", f"/v1/queues/q/{verb}")
    with closing(open_store(f"sqlite:///{tmp_path}/data/penstock.db")) as store, store.unit(write=False) as unit:
        entries = unit.actions.list(None, 2)
    assert [(one.what.value, one.queue, one.via) for one in entries] == [
        ("queue.resume", "q", "native"),
        ("queue.pause", "q", "native"),
    ]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pause_and_resume_of_a_missing_queue(native: Native, verb: str) -> None:
    assert native.talk("POST", f"/v1/queues/nope/{verb}").status == 404
    assert native.talk("GET", f"/v1/queues/q/{verb}").status in (404, 405)
