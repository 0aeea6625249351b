"""Sends with a key, which can be repeated."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import QueueNotFound, SendConflict
from penstock.limits import Limits
from penstock.model import Dedup, Draft, SentOnce
from penstock.stores import Store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("messages")


def test_stores_and_says_how_many(verbs: Verbs) -> None:
    verbs.create()
    assert verbs.send_once("k", b"a", b"b") == SentOnce(2, 2, False)
    assert verbs.stirred == {"q"}
    assert verbs.bodies() == [b"a", b"b"]


def test_again_stores_nothing(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a", b"b")
    verbs.now += 5
    assert verbs.send_once("k", b"a", b"b") == SentOnce(2, 2, True)
    assert verbs.stirred == set()
    assert verbs.tally().arrived == 2


def test_again_after_the_messages_have_left(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a")
    verbs.ack(*verbs.claim())
    assert verbs.send_once("k", b"a").repeated
    assert verbs.seen() == []


def test_in_one_unit(verbs: Verbs, store: Store) -> None:
    verbs.create()
    with store.unit() as unit:
        results = [unit.messages.send_once("q", "k", b"d", [Draft(b"a")], verbs.now).repeated for _ in range(2)]
    assert results == [False, True]
    assert verbs.seen() == [b"a"]


def test_the_same_key_for_another_content_is_refused(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a")
    with pytest.raises(SendConflict):
        verbs.send_once("k", b"b")
    assert verbs.seen() == [b"a"]


def test_keys_are_compared_letter_by_letter(verbs: Verbs) -> None:
    verbs.create()
    for key in ("k", "K", "k ", " k", "k" * limits.IDEMPOTENCY_KEY_LENGTH):
        assert not verbs.send_once(key, b"a").repeated
    assert len(verbs.seen()) == 5


def test_every_queue_has_its_own_keys(verbs: Verbs) -> None:
    verbs.create()
    verbs.create("p")
    verbs.send_once("k", b"a")
    assert verbs.send_once("k", b"b", to="p") == SentOnce(1, 1, False)


def test_a_new_queue_of_the_same_name_knows_no_keys(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a")
    verbs.delete()
    verbs.create()
    assert not verbs.send_once("k", b"b").repeated


@pytest.mark.needs("dedup")
def test_counts_twins_as_not_stored(verbs: Verbs) -> None:
    verbs.create(dedup=Dedup.SEND)
    verbs.send(b"a")
    assert verbs.send_once("k", b"a", b"b", b"b") == SentOnce(3, 1, False)
    assert verbs.send_once("k", b"a", b"b", b"b") == SentOnce(3, 1, True)
    assert verbs.send_once("l", b"a") == SentOnce(1, 0, False)
    assert verbs.stirred == set()


def test_keeps_all_of_a_draft(verbs: Verbs, store: Store) -> None:
    verbs.create()
    draft = Draft(b"x", "text/plain", {"k": "v"}, delay_ms=500)
    with store.unit() as unit:
        unit.messages.send_once("q", "k", b"d", [draft], verbs.now)
    [message] = verbs.peek()
    assert (message.content_type, message.attributes, message.ready_at) == ("text/plain", {"k": "v"}, verbs.now + 500)


def test_to_a_queue_that_is_not_there(verbs: Verbs) -> None:
    verbs.create()
    with pytest.raises(QueueNotFound):
        verbs.send_once("k", b"a", to="no")


def test_is_forgotten_after_its_time(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a")
    verbs.now += Limits().idempotency_ms
    verbs.sweep()
    assert verbs.send_once("k", b"a").repeated
    verbs.now += 1
    assert verbs.sweep() == 1
    assert not verbs.send_once("k", b"b").repeated


def test_is_forgotten_after_its_time_without_a_sweep(verbs: Verbs) -> None:
    verbs.create()
    verbs.send_once("k", b"a")
    verbs.now += Limits().idempotency_ms + 1
    assert verbs.send_once("k", b"b") == SentOnce(1, 1, False)
    assert verbs.send_once("k", b"b").repeated
    with pytest.raises(SendConflict):
        verbs.send_once("k", b"a")


def test_a_lost_unit_is_not_remembered(verbs: Verbs, store: Store) -> None:
    verbs.create()

    def lose() -> None:
        with store.unit() as unit:
            unit.messages.send_once("q", "k", b"d", [Draft(b"a")], verbs.now)
            raise KeyError

    with pytest.raises(KeyError):
        lose()
    assert verbs.send_once("k", b"a") == SentOnce(1, 1, False)
