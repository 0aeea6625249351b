"""The DedupQueueService: equal messages collapse when they are polled, never later and never earlier."""

from __future__ import annotations

import pytest

from tests.faces.emodb.conftest import Emo
from tests.servers import ThreadServer


def test_two_equal_messages_between_two_polls_are_one(dedup: Emo) -> None:
    """M1 → M1 → P1."""
    dedup.send("q", '{"m":1}', '{"m":1}')
    assert dedup.payloads("q") == [{"m": 1}]
    assert dedup.payloads("q") == []


def test_a_message_polled_between_them_keeps_them_apart(dedup: Emo) -> None:
    """M1 → P1 → M1 → P2."""
    dedup.send("q", '{"m":1}')
    assert dedup.payloads("q") == [{"m": 1}]
    dedup.send("q", '{"m":1}')
    assert dedup.payloads("q") == [{"m": 1}]
    assert dedup.size("q") == 2


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a":1,"b":[2,{"c":3,"d":4}]}', ' { "b" : [ 2 , {"d":4,"c":3} ] ,\n"a":1 } '],
        ["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000"],
        ["0", "-0", "0.0", "-0.0", "0e5"],
        ["100000000000000000000", "1e20", "1.0E+20"],
        ["1e999", "10e998"],
        ["0.1", "1e-1"],
        ['"é"', '"\\u00e9"', '"\\u00E9"'],
        ['"a/b"', '"a\\/b"'],
        ['{"é":1}', '{"\\u00e9":1.0}'],
        ["[]", "[ ]", "[\n]"],
        ["null", " null "],
    ],
)
def test_equal_values_collapse_however_they_are_written(dedup: Emo, texts: list[str]) -> None:
    dedup.send("q", *texts)
    assert len(dedup.peek("q")) == len(texts)
    assert len(dedup.poll("q", limit=100)) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ["1", '"1"', "[1]", "true", '{"a":1}'],
        ["[1,2]", "[2,1]"],
        ["null", "{}", "[]", '""', "0", "false"],
        ['{"a":null}', "{}"],
        ["9007199254740993", "9007199254740993.5", "9007199254740992"],
        ["1e999", "1e998", '"1e999"'],
        ['"a"', '"A"', '"a "'],
        ["1e400", "-1e400"],
    ],
)
def test_values_that_differ_do_not(dedup: Emo, texts: list[str]) -> None:
    dedup.send("q", *texts)
    assert len(dedup.poll("q", limit=100)) == len(texts)


def test_the_plain_queue_keeps_duplicates(plain: Emo) -> None:
    plain.send("q", "1", "1", "1")
    assert plain.payloads("q") == [1, 1, 1]


def test_a_batch_with_duplicates(dedup: Emo) -> None:
    dedup.post("_sendbatch", '{"q": [1, 2, 1, 1.0], "r": [1]}')
    assert dedup.payloads("q") == [1, 2]
    assert dedup.payloads("r") == [1]


def test_duplicates_collapse_wherever_they_are(dedup: Emo) -> None:
    dedup.post("q/sendbatch", str([1, *range(2, 500), 1]))
    assert dedup.payloads("q", limit=1) == [1]
    assert dedup.size("q") == 499
    assert dedup.payloads("q", limit=1) == [2]


def test_duplicates_do_not_count_towards_the_limit(dedup: Emo) -> None:
    dedup.post("q/sendbatch", "[1,1,1,2,2,3]")
    assert dedup.payloads("q", limit=3) == [1, 2, 3]


def test_acking_leaves_no_twin_behind(dedup: Emo, server: ThreadServer) -> None:
    dedup.send("q", "1", "1.0", "1")
    [message] = dedup.poll("q")
    dedup.ack("q", [message])
    server.clock.advance(3600)
    assert (dedup.size("q"), dedup.poll("q"), dedup.peek("q")) == (0, [], [])


def test_a_claim_that_runs_out_does_not_merge_with_what_came_later(dedup: Emo, server: ThreadServer) -> None:
    dedup.send("q", "1")
    [first] = dedup.poll("q", ttl=10)
    dedup.send("q", "1", "1")
    server.clock.advance(11)
    messages = dedup.poll("q", ttl=10)
    assert [message["payload"] for message in messages] == [1, 1]
    assert messages[0] == first
    assert dedup.size("q") == 2


def test_a_released_message_does_not_merge_either(dedup: Emo) -> None:
    dedup.send("q", "1")
    dedup.renew("q", dedup.poll("q"), ttl=0)
    dedup.send("q", "1")
    assert dedup.payloads("q") == [1, 1]
    dedup.post("q/unclaimall")
    assert dedup.payloads("q") == [1, 1]


def test_a_ttl_of_nothing_collapses_as_well(dedup: Emo) -> None:
    dedup.send("q", "1", "1")
    assert dedup.payloads("q", ttl=0) == [1]
    assert dedup.size("q") == 1
    dedup.send("q", "1")
    assert dedup.payloads("q") == [1, 1]


def test_peek_shows_duplicates(dedup: Emo) -> None:
    dedup.send("q", "1", "1", "2")
    assert [message["payload"] for message in dedup.peek("q")] == [1, 1, 2]
    assert dedup.size("q") == 3
    assert dedup.payloads("q") == [1, 2]


def test_duplicates_moved_together_collapse_where_they_arrive(dedup: Emo) -> None:
    dedup.send("a", '{"x":1,"y":2}', "3")
    dedup.send("b", '{"y":2,"x":1}')
    dedup.post("_move?from=a&to=b")
    while dedup.size("a"):
        pass
    assert len(dedup.peek("b")) == 3
    assert sorted(dedup.payloads("b"), key=str) == [3, {"x": 1, "y": 2}]


def test_a_dedup_queue_is_seen_by_the_native_api_under_its_full_name(dedup: Emo) -> None:
    dedup.send("q", "1")
    assert dedup.talk("GET", "/v1/queues/dedupq%2Fq").json["settings"]["dedup"] == "claim"
    assert dedup.talk("GET", "/v1/queues/q").status == 404
