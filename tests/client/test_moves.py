"""Moves, through both clients."""

from __future__ import annotations

import pytest

from penstock.client import InvalidRequest, MoveConflict, MoveNotFound, QueueNotFound


@pytest.fixture
def two(client):
    client.create_queue("jobs")
    client.create_queue("there")
    client.send_many("jobs", ['{"n": 1}', '{"n": 2}', "three"])
    return client


def test_a_move_and_its_progress(two):
    started = two.move("jobs", "there", json={"path": "$.n", "value": 2})
    *_, ended = two.follow_move(started.id, every_s=0.01)
    assert (ended.status, ended.has_ended, ended.examined, ended.moved) == ("complete", True, 3, 1)
    assert ended.filter == {"json": {"path": "$.n", "value": 2}}
    assert two.find_move(started.id) == ended
    assert two.moves() == [ended]
    assert [message.text for message in two.claim("there")] == ['{"n": 2}']


def test_counting_first(two):
    started = two.move("jobs", "there", text="n", older_than_ms=0, limit=5, dry_run=True)
    *_, counted = two.follow_move(started.id, every_s=0.01)
    assert (counted.dry_run, counted.limit, counted.matched, counted.moved) == (True, 5, 2, 0)


def test_redrive(client):
    client.create_queue("dead")
    client.create_queue("jobs", redrive={"max_receives": 1, "dead_letter_queue": "dead"})
    client.send("jobs", "a")
    client.claim("jobs", hold_ms=0)
    assert client.claim("jobs") == []
    assert [message.came_from for message in client.peek("dead").messages] == ["jobs"]
    *_, ended = client.follow_move(client.redrive("dead").id, every_s=0.01)
    assert (ended.target, ended.moved, ended.homeless) == (None, 1, 0)
    [message] = client.claim("jobs")
    assert (message.text, message.came_from) == ("a", None)


def test_who_arrives_as_new(two):
    before = {message.id for message in two.peek("jobs").messages}
    *_, kept = two.follow_move(two.move("jobs", "there", limit=1).id, every_s=0.01)
    *_, anew = two.follow_move(two.move("jobs", "there", as_new=True).id, every_s=0.01)
    assert [(move.as_new, move.total, move.moved) for move in (kept, anew)] == [(False, 3, 1), (True, 2, 2)]
    assert len({message.id for message in two.peek("there").messages} & before) == 1
    two.create_queue("dead")
    assert two.redrive("dead").as_new
    assert not two.redrive("dead", as_new=False, dry_run=True).as_new


def test_the_moves_from_one_queue(two):
    for source, target in (("jobs", "there"), ("there", "jobs")):
        *_, ended = two.follow_move(two.move(source, target).id, every_s=0.01)
    assert two.moves(source="there") == [ended]
    assert [move.source for move in two.moves(1, "jobs")] == ["jobs"]
    assert two.moves(source="none") == []
    with pytest.raises(InvalidRequest, match="UTF-8"):
        two.moves(source="\ud800")


def test_cancel(two):
    two.send_many("jobs", ["more"] * 1_000)  # else it might end before it is cancelled
    started = two.move("jobs", "there", per_second=1)
    with pytest.raises(MoveConflict, match="'jobs'"):
        two.move("jobs", "there")
    assert two.cancel_move(started.id).status == "cancelled"


def test_what_is_not_there(two):
    for ask in (two.find_move, two.cancel_move):
        with pytest.raises(MoveNotFound, match="'none'"):
            ask("none")
    with pytest.raises(QueueNotFound, match="'none'"):
        two.move("jobs", "none")


def test_what_matches_is_deleted(two):
    *_, ended = two.follow_move(two.delete_matching("jobs", text="n", limit=1).id, every_s=0.01)
    assert (ended.action, ended.target, ended.status, ended.moved) == ("delete", None, "complete", 1)
    assert [message.text for message in two.peek("jobs").messages] == ['{"n": 2}', "three"]


def test_what_is_claimed_is_deleted_when_it_is_asked_for(two):
    two.claim("jobs", 1)
    two.send("jobs", "kind", attributes={"kind": "test"})
    *_, stays = two.follow_move(two.delete_matching("jobs", text='"n": 1').id, every_s=0.01)
    *_, goes = two.follow_move(two.delete_matching("jobs", text='"n": 1', claimed=True).id, every_s=0.01)
    *_, kind = two.follow_move(two.delete_matching("jobs", attribute={"name": "kind"}).id, every_s=0.01)
    assert [(one.claimed, one.moved) for one in (stays, goes, kind)] == [(False, 0), (True, 1), (False, 1)]


def test_claims_on_what_matches_end(two):
    two.claim("jobs", 2)
    *_, ended = two.follow_move(two.release_matching("jobs", text="1").id, every_s=0.01)
    assert (ended.action, ended.moved) == ("release", 1)
    assert [message.text for message in two.claim("jobs")] == ['{"n": 1}']
    *_, counted = two.follow_move(two.release_matching("jobs", state="claimed", dry_run=True).id, every_s=0.01)
    assert counted.matched == 2
