"""Labels of a queue, and when its settings were last changed."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from penstock import limits, policy
from penstock.model import Dedup, DedupScope, Groups, QueueChange, Redrive, Settings
from penstock.stores import Store, open_store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("messages")

LABELS = {
    "": "",
    "team": "orders",
    "Team": "ORDERS",
    "gr\u00f6\u00dfe": "\u00fcberall \U0001f600",
    "quotes": "'\"\\`;--\n\r\t",
    "aws:sqs:Policy": json.dumps({"Statement": [{"Effect": "Allow"}]}),
    "null": "\u0000",
    "last": "\uffff\U0010ffff",
}


def test_a_queue_without_labels(verbs: Verbs) -> None:
    assert verbs.create().settings.labels == {}
    assert verbs.find().settings.labels == {}


def test_kept_letter_by_letter(verbs: Verbs) -> None:
    verbs.create(labels=LABELS)
    assert verbs.find().settings.labels == LABELS
    assert verbs.update(labels={**LABELS, "team": "x"}).settings.labels == {**LABELS, "team": "x"}
    assert verbs.find().settings.labels == {**LABELS, "team": "x"}
    verbs.update()
    assert verbs.find().settings.labels == {}


def test_kept_in_their_order(verbs: Verbs) -> None:
    """Those who show them need not sort them."""
    verbs.create(labels={"z": "1", "a": "2", "m": "3"})
    assert list(verbs.find().settings.labels) == ["z", "a", "m"]


def test_as_many_and_as_long_as_may_be(verbs: Verbs) -> None:
    labels = {
        f"{number:03}" + "\U0001f600" * (limits.LABEL_KEY_LENGTH - 3): "\U0001f600" * limits.LABEL_VALUE_LENGTH
        for number in range(limits.LABELS)
    }
    verbs.create(labels=labels)
    assert verbs.find().settings.labels == labels


def test_a_face_may_keep_a_longer_one(verbs: Verbs) -> None:
    labels = {"aws:sqs:Policy": "p" * 100_000}
    verbs.create(labels=labels)
    assert verbs.find().settings.labels == labels


def test_every_queue_has_its_own(verbs: Verbs) -> None:
    verbs.create(labels={"a": "1"})
    verbs.create("p", labels={"a": "2"})
    with verbs.unit(write=False) as unit:
        assert [queue.settings.labels for queue in unit.list_queues(0, 10).queues] == [{"a": "1"}, {"a": "2"}]
        assert [queue.settings.labels for queue in unit.page_queues("", "", 10)] == [{"a": "2"}, {"a": "1"}]


def test_a_queue_of_the_same_name_again_has_none(verbs: Verbs) -> None:
    verbs.create(labels={"a": "1"})
    verbs.delete()
    assert verbs.create().settings.labels == {}


def test_a_change_sets_some_and_removes_some(verbs: Verbs) -> None:
    former = Settings(labels={"a": "1", "b": "2", "c": "3"}, delay_ms=5)
    changed = policy.changed(former, QueueChange(labels={"a": "x", "b": None, "d": "4", "e": None}))
    assert changed == Settings(labels={"a": "x", "c": "3", "d": "4"}, delay_ms=5)
    assert policy.changed(former, QueueChange(delay_ms=6)).labels == former.labels


def test_every_new_setting_is_kept(verbs: Verbs) -> None:
    settings = Settings(
        groups=Groups.FIFO,
        dedup=Dedup.WINDOW,
        dedup_window_ms=123_456_789_012,
        dedup_scope=DedupScope.GROUP,
        labels={"k": "v"},
    )
    with verbs.unit() as unit:
        created = unit.create_queue("q", settings, verbs.now)
    assert created.settings == settings
    assert verbs.find() == created
    with verbs.unit() as unit:
        updated = unit.update_queue("q", Settings(groups=Groups.FIFO), verbs.now)
    assert verbs.find() == updated
    assert updated.settings == Settings(groups=Groups.FIFO)


class TestModified:
    def test_at_first_when_it_was_made(self, verbs: Verbs) -> None:
        created = verbs.create()
        assert created.created_at == created.modified_at == verbs.now

    def test_by_an_update(self, verbs: Verbs) -> None:
        created = verbs.create()
        verbs.now += 5
        updated = verbs.update(labels={"a": "b"})
        assert (updated.created_at, updated.modified_at) == (created.created_at, verbs.now)
        assert verbs.find() == updated
        with verbs.unit(write=False) as unit:
            assert unit.list_queues(0, 10).queues == [updated]

    def test_by_an_update_that_changes_nothing(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.now += 5
        verbs.update()
        assert verbs.find().modified_at == verbs.now

    def test_not_by_messages(self, verbs: Verbs) -> None:
        created = verbs.create()
        verbs.now += 5
        verbs.send(b"x")
        verbs.ack(*verbs.claim())
        verbs.sweep()
        assert verbs.find() == created

    def test_not_by_an_update_that_fails(self, verbs: Verbs) -> None:
        created = verbs.create()
        verbs.now += 5
        with pytest.raises(Exception, match="'nowhere'"):
            verbs.update(redrive=Redrive(1, "nowhere"))
        assert verbs.find() == created


def test_another_opening_of_the_store_sees_them(verbs: Verbs, store: Store) -> None:
    queue = verbs.create(labels=LABELS, groups=Groups.FIFO)
    if store.url != "memory://":  # which is gone when it is closed
        with closing(open_store(store.url)) as other:
            assert Verbs(other).find() == queue
