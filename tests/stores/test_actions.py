"""The log of actions as a store keeps it: what was recorded, the latest first."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.model import Action, ActionFilter, ActionKind, Actor
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("actions")

ANN = Actor("ann", "native")
BOB = Actor("bob", "sqs")


class Lost(Exception):
    pass


def listed(verbs: Verbs, before: int | None = None, limit: int = 100, **wanted: object) -> list[Action]:
    with verbs.unit(write=False) as unit:
        return list(unit.actions.list(before, limit, ActionFilter(**wanted) if wanted else None))


def record(
    verbs: Verbs,
    by: Actor = ANN,
    what: ActionKind = ActionKind.QUEUE_CREATE,
    queue: str | None = "q",
    count: int | None = None,
    detail: str | None = None,
) -> None:
    with verbs.unit() as unit:
        unit.actions.record(by, what, verbs.now, queue, count, detail)


def queues(actions: list[Action]) -> list[str | None]:
    return [action.queue for action in actions]


def test_a_new_store_has_none(verbs: Verbs) -> None:
    assert listed(verbs) == []
    assert listed(verbs, queue="q", since=0) == []


def test_an_action_is_kept_as_it_was_recorded(verbs: Verbs) -> None:
    record(verbs, ANN, ActionKind.QUEUE_PURGE, "orders", 12, '{"older_than_ms":5}')
    [action] = listed(verbs)
    assert action.number >= 1
    assert action == Action(
        action.number, verbs.now, "ann", "native", ActionKind.QUEUE_PURGE, "orders", 12, '{"older_than_ms":5}'
    )


def test_most_of_it_may_be_missing(verbs: Verbs) -> None:
    record(verbs, Actor(None, "console"), ActionKind.CONSOLE_SIGN_IN, None)
    [action] = listed(verbs)
    assert (action.key, action.queue, action.count, action.detail) == (None, None, None, None)


def test_every_kind_and_long_texts_of_any_language_are_kept(verbs: Verbs) -> None:
    detail = "grüße ☂ 𝄞" * 400
    for what in ActionKind:
        record(verbs, what=what, detail=detail)
    found = listed(verbs)
    assert [action.what for action in found] == list(reversed(ActionKind))
    assert {action.detail for action in found} == {detail}


def test_the_latest_comes_first_and_pages_go_on_by_number(verbs: Verbs) -> None:
    for number in range(7):
        record(verbs, queue=f"q{number}")
    first = listed(verbs, limit=3)
    second = listed(verbs, before=first[-1].number, limit=3)
    third = listed(verbs, before=second[-1].number, limit=3)
    assert queues(first + second + third) == [f"q{number}" for number in reversed(range(7))]
    assert [action.number for action in listed(verbs)] == sorted((one.number for one in listed(verbs)), reverse=True)
    assert listed(verbs, before=third[-1].number) == []


def test_several_actions_of_one_unit_stand_in_their_order(verbs: Verbs) -> None:
    with verbs.unit() as unit:
        for name in "abc":
            unit.actions.record(ANN, ActionKind.QUEUE_DELETE, verbs.now, name)
    assert queues(listed(verbs)) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"queue": "a"}, ["a3", "a1"]),
        ({"queue": "A"}, []),
        ({"key": "ann"}, ["b4", "a1"]),
        ({"key": "Ann"}, []),
        ({"what": ActionKind.QUEUE_PURGE}, ["b4", "a3"]),
        ({"queue": "a", "key": "bob"}, ["a3"]),
        ({"queue": "b", "what": ActionKind.QUEUE_CREATE}, ["b2"]),
        ({"key": "bob", "what": ActionKind.QUEUE_PURGE}, ["a3"]),
        ({"queue": "a", "key": "bob", "what": ActionKind.QUEUE_PURGE}, ["a3"]),
        ({"queue": "a", "key": "bob", "what": ActionKind.QUEUE_DELETE}, []),
        ({"since": 1_000_002}, ["b4", "a3", "b2"]),
        ({"until": 1_000_003}, ["b2", "a1"]),
        ({"since": 1_000_002, "until": 1_000_004}, ["a3", "b2"]),
        ({"since": 1_000_002, "queue": "b"}, ["b4", "b2"]),
        ({"since": 2_000_000}, []),
        ({"until": 1}, []),
    ],
)
def test_a_filter_chooses(verbs: Verbs, wanted: dict[str, object], found: list[str]) -> None:
    done = [
        (ANN, ActionKind.QUEUE_CREATE, "a"),
        (BOB, ActionKind.QUEUE_CREATE, "b"),
        (BOB, ActionKind.QUEUE_PURGE, "a"),
        (ANN, ActionKind.QUEUE_PURGE, "b"),
    ]
    for number, (by, what, queue) in enumerate(done, 1):
        verbs.now = 1_000_000 + number
        record(verbs, by, what, queue, number)
    assert [f"{action.queue}{action.count}" for action in listed(verbs, **wanted)] == found
    assert [f"{action.queue}{action.count}" for action in listed(verbs, limit=1, **wanted)] == found[:1]


def test_a_filter_goes_on_by_number(verbs: Verbs) -> None:
    for number in range(6):
        record(verbs, queue="a" if number % 2 else "b", count=number)
    [first] = listed(verbs, limit=1, queue="a")
    assert [action.count for action in listed(verbs, before=first.number, queue="a")] == [3, 1]


def test_what_far_apart_instants_say_is_found_by_time(verbs: Verbs) -> None:
    """Beyond the disorder that a filter allows for."""
    start, hour = verbs.now, 60 * 60 * 1000
    for number in range(5):
        verbs.now = start + number * hour
        record(verbs, count=number)
    assert [action.count for action in listed(verbs, since=start + hour, until=start + 3 * hour)] == [2, 1]
    assert [action.count for action in listed(verbs, since=start + hour, until=start + 3 * hour, queue="q")] == [2, 1]


def test_an_action_of_a_lost_unit_never_was(verbs: Verbs) -> None:
    verbs.create("kept")
    record(verbs, queue="kept")
    with suppress(Lost), verbs.unit() as unit:
        unit.delete_queue("kept", verbs.now)
        unit.actions.record(ANN, ActionKind.QUEUE_DELETE, verbs.now, "kept")
        raise Lost
    assert [action.what for action in listed(verbs)] == [ActionKind.QUEUE_CREATE]
    assert verbs.find("kept") is not None


def test_the_log_names_a_queue_that_is_gone(verbs: Verbs) -> None:
    verbs.create("gone")
    record(verbs, queue="gone")
    verbs.delete("gone")
    verbs.now += 10 * 60 * 60 * 1000
    verbs.sweep()
    assert queues(listed(verbs, queue="gone")) == ["gone"]


def test_a_sweep_frees_old_ones_a_few_at_a_time(verbs: Verbs) -> None:
    start = verbs.now
    for number in range(6):
        verbs.now = start + number
        record(verbs, count=number)
    assert verbs.sweep() == 0
    assert verbs.sweep(limit=2, actions_before=start + 3) == 2
    assert [action.count for action in listed(verbs)] == [5, 4, 3, 2]
    assert verbs.sweep(actions_before=start + 3) == 1
    assert verbs.sweep(actions_before=start + 3) == 0
    assert [action.count for action in listed(verbs)] == [5, 4, 3]


def test_numbers_are_never_used_again(verbs: Verbs) -> None:
    record(verbs)
    [first] = listed(verbs)
    assert verbs.sweep(actions_before=verbs.now + 1) == 1
    record(verbs)
    [second] = listed(verbs)
    assert second.number > first.number


def test_a_move_remembers_who_started_it(verbs: Verbs) -> None:
    verbs.create("a")
    verbs.create("b")
    with verbs.unit() as unit:
        assert unit.moves.start("m1", "a", "b", verbs.now, by=ANN).by == ANN
        unit.moves.cancel("m1", verbs.now)
        unit.moves.start("m2", "a", "b", verbs.now, by=Actor(None, "emodb"))
        unit.moves.cancel("m2", verbs.now)
        unit.moves.start("m3", "a", "b", verbs.now)
    with verbs.unit() as unit:
        assert unit.moves.find("m1", verbs.now).by == ANN
        assert unit.moves.hold("m1", verbs.now) == unit.moves.find("m1", verbs.now)
        assert unit.moves.find("m2", verbs.now).by == Actor(None, "emodb")
        assert unit.moves.step("m3", verbs.now, 10).by is None


def test_revoking_a_key_says_whether_it_was_valid(verbs: Verbs) -> None:
    verbs.create_key()
    assert verbs.keys.revoke("k") is True
    assert verbs.keys.revoke("k") is False
