"""`replay`: what matches is sent once, what does not stays, and nothing happens without a yes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.client import Unreachable
from penstock.spark.jobs import JobFailed, Run, Server, Source, replay
from tests.spark.faults.gate import Gate


@pytest.fixture
def gate(plant) -> Iterator[Gate]:
    gate = Gate(plant.server.url)
    yield gate
    gate.close()


def test_without_a_yes_nothing_happens(plant) -> None:
    plant.send("q", "a", "b")
    summary = plant.replay(queue="q", where="body = 'a'")
    assert (summary.dry_run, summary.looked_at, summary.matched, summary.sent) == (True, 2, 1, 0)
    assert plant.bodies("other") == []
    assert plant.client.queue("q").count.ready == 2


def test_a_whole_queue(plant) -> None:
    plant.send("q", "a", b"\xff", content_type="x/y", attributes={"k": "v"})
    [claimed] = plant.client.claim("q", 1)
    assert plant.replay(queue="q").matched == 1
    summary = plant.replay(queue="q", yes=True)
    assert (summary.sent, summary.repeated, summary.problems) == (1, 0, [])
    plant.client.release("q", [claimed.receipt])
    assert plant.replay(queue="q", yes=True).sent == 1
    found = [(it.body, it.content_type, it.attributes, it.receives) for it in plant.client.peek("other").messages]
    assert sorted(found) == [(b"a", "x/y", {"k": "v"}, 0), (b"\xff", "x/y", {"k": "v"}, 0)]
    assert plant.client.queue("q").count.total == 0
    assert plant.replay(queue="q", yes=True).matched == 0


def test_what_matches_of_a_queue(plant) -> None:
    plant.send("q", '{"a":1}', attributes={"error": "timeout"})
    plant.send("q", '{"a":2}', b"\xff", attributes={"error": "other"})
    summary = plant.replay(queue="q", where="attributes['error'] = 'timeout' AND body LIKE '%1%'", yes=True)
    assert (summary.matched, summary.sent, summary.left, summary.problems) == (1, 1, 2, [])
    assert plant.bodies("other") == [b'{"a":1}']
    left = plant.client.peek("q").messages
    assert sorted(message.body for message in left) == [b'{"a":2}', b"\xff"]
    assert plant.client.queue("q").count.ready == 2
    ids = {message.id for message in left}
    assert plant.replay(queue="q", where="body = 'nothing'", yes=True).sent == 0
    assert {message.id for message in plant.client.peek("q").messages} == ids


@pytest.mark.parametrize("answered", [False, True])
def test_what_matches_was_moved_and_nobody_was_told(plant, gate: Gate, answered: bool) -> None:
    """The job ends at its second thousand, before or after the server has moved them; the next run has other pages."""
    plant.send("q", *(f"{'even' if number % 2 == 0 else 'odd'} {number}" for number in range(5_000)))
    source = Source(queue="q", where="body LIKE 'even%'")
    held = gate.hold("POST .*/messages/move", skip=1, answered=answered)
    with ThreadPoolExecutor() as pool:
        job = pool.submit(replay, Server(gate.url), source, "other", yes=True, run=Run(plant.spark))
        held.wait(job)
        held.cut()
        with pytest.raises(Unreachable):
            job.result()
    assert plant.client.queue("other").count.total == (2_000 if answered else 1_000)
    assert plant.client.queue("q").count.claimed == 0
    kept = plant.client.claim("q", 7)  # so that the next run cuts its pages elsewhere
    replay(plant.server, source, "other", yes=True, run=Run(plant.spark))
    plant.client.release("q", [message.receipt for message in kept])
    replay(plant.server, source, "other", yes=True, run=Run(plant.spark))
    moved = _texts(plant, "other")
    assert len(moved) == len(set(moved)) == 2_500
    assert {text.partition(" ")[0] for text in moved} == {"even"}
    assert {text.partition(" ")[0] for text in _texts(plant, "q")} == {"odd"}


def test_what_another_holds_by_now_does_not_move(plant, gate: Gate) -> None:
    plant.send("q", "a", "b")
    held = gate.hold("POST .*/renew")
    with ThreadPoolExecutor() as pool:
        source = Source(queue="q", where="body < 'c'")
        job = pool.submit(replay, Server(gate.url), source, "other", yes=True, run=Run(plant.spark))
        held.wait(job)
        plant.clock.advance(16 * 60)
        [others] = plant.client.claim("q", 1)
        held.let_go()
        summary = job.result()
    assert (summary.matched, summary.sent, summary.missed) == (2, 1, 1)
    assert "no longer held" in summary.problems[0]
    assert plant.client.ack("q", [others.receipt]) == [True]


def test_matches_go_in_batches(plant, gate: Gate) -> None:
    plant.send("q", *map(str, range(2_500)))
    source = Source(queue="q", where="receives > 0")
    assert replay(Server(gate.url), source, "other", yes=True, run=Run(plant.spark)).sent == 2_500
    assert len([asked for asked in gate.seen if asked.endswith("/messages/move")]) == 3
    assert len(gate.seen) < 15


def test_no_session_is_opened_for_a_whole_queue(plant) -> None:
    plant.send("q", "a")
    assert replay(plant.server, Source(queue="q"), "other", yes=True, run=Run(master="nonsense")).sent == 1


def test_a_move_that_is_under_way(plant) -> None:
    plant.send("q", "a", "b")
    plant.client.move("q", "other", per_second=1)
    with pytest.raises(JobFailed, match="penstock moves list"):
        plant.replay(queue="q", yes=True)


def _texts(plant, queue: str) -> list[str]:
    return [body.decode() for body in plant.client.arrow.peek(queue).batch["body"].to_pylist()]


def test_from_the_lake(plant) -> None:
    plant.send("q", "a", "b", "c")
    plant.drain(limit=2)
    assert plant.replay(lake=plant.root, where="body > 'a' AND queue = 'q'").matched == 2
    summary = plant.replay(lake=plant.root, where="body > 'a'", yes=True)
    assert (summary.sent, plant.bodies("other")) == (2, [b"b", b"c"])
    again = plant.replay(lake=plant.root, where="body > 'a'", yes=True)
    assert (again.sent, again.repeated) == (0, 2)
    assert plant.replay(lake=plant.root, where="body > 'a'", yes=True, label="once more").sent == 2
    assert plant.drained() == [b"a", b"b", b"c"]


def test_groups_go_along(plant) -> None:
    plant.send("q", "a", "b", group="g")
    plant.send("q", "c")
    assert plant.replay(queue="q", where="`group` = 'g' AND body = 'b'", yes=True).sent == 1
    assert plant.replay(queue="q", yes=True).sent == 2
    assert {(it.text, it.group) for it in plant.client.peek("other").messages} == {("a", "g"), ("b", "g"), ("c", None)}
    plant.drain("other")
    plant.replay("q", lake=plant.root, where="group IS NOT NULL", yes=True)
    assert {(it.text, it.group) for it in plant.client.peek("q").messages} == {("a", "g"), ("b", "g")}


def test_from_a_lake_of_before_there_were_groups(plant) -> None:
    plant.send("q", "a", group="g")
    plant.drain()
    plant.send("q", "b")
    plant.drain()
    old = Path(plant.root, plant.lake.shipped("q")[1].file)
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(["group"]), old)
    assert plant.drained("body", "group") == [(b"a", "g"), (b"b", None)]
    assert plant.replay(lake=plant.root, where="group IS NULL").matched == 1
    plant.replay(lake=plant.root, yes=True)
    assert {(it.text, it.group) for it in plant.client.peek("other").messages} == {("a", "g"), ("b", None)}
    assert plant.replay(lake=plant.root, yes=True).sent == 0


def test_from_a_lake_of_json(plant) -> None:
    """A body that did not decode is replayed as it came."""
    plant.send("q", '{"a":1}', "broken")
    plant.drain(format="json", schema="a int")
    plant.replay(lake=plant.root, yes=True)
    assert plant.bodies("other") == [b"broken", b'{"a":1}']


def test_what_cannot_be_replayed(plant) -> None:
    for options, text in [
        ({"queue": "q", "where": "nonsense ="}, "not understood"),
        ({"queue": "q", "where": "colour = 1"}, "not understood"),
        ({"queue": "other"}, "to itself"),
        ({}, "name one of them"),
    ]:
        with pytest.raises(JobFailed, match=text):
            plant.replay(yes=True, **options)
