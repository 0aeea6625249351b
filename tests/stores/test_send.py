from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from penstock import ids, limits
from penstock.errors import QueueNotFound
from penstock.model import Dedup, Draft, Message, Sent

BODIES = [
    b"",
    b"\x00",
    b"a\x00b",
    bytes(range(256)),
    "Größe 🌊".encode(),
    b"'; DROP TABLE message; --",
]


@pytest.mark.parametrize("body", BODIES)
def test_bytes_in_are_bytes_out(verbs, body):
    verbs.create()
    verbs.send(body)
    assert verbs.seen() == [body]
    assert verbs.bodies() == [body]


def test_a_body_of_the_largest_size(verbs):
    body = bytes(range(256)) * (limits.BODY_BYTES // 256)
    verbs.create()
    verbs.send(body)
    assert verbs.bodies() == [body]


def test_one_result_for_each_draft_in_the_order_given(verbs):
    verbs.create()
    sent = verbs.send(*(b"%d" % n for n in range(1_000)))
    messages = verbs.peek()
    assert [one.id for one in sent] == [message.id for message in messages]
    assert [message.body for message in messages] == [b"%d" % n for n in range(1_000)]
    assert all(one.stored for one in sent)
    assert len({one.id for one in sent}) == 1_000


ODD_ONES = {
    "none": {},
    "a content type": {"content_type": "text/plain"},
    "attributes": {"attributes": {"kind": "odd"}},
    "a delay": {"delay_ms": 1},
    "a deadline": {"deadline_at": 10**12},
    "a key": {"dedup_key": b"odd"},
    "a group": {"group": "odd"},
}


@pytest.mark.parametrize("dedup", Dedup)
@pytest.mark.parametrize("odd_one", ODD_ONES.values(), ids=ODD_ONES)
def test_many_that_are_alike_but_for_one(verbs, dedup, odd_one):
    verbs.create(dedup=dedup)
    drafts = [Draft(b"%d" % n, "text/html", dedup_key=b"%016d" % n) for n in range(100)]
    drafts[50] = msgspec.structs.replace(drafts[50], **odd_one)
    sent = verbs.send(*drafts)
    seen = {message.id: message for message in verbs.peek()}
    for draft, one in zip(drafts, sent, strict=True):
        message = seen[one.id]
        assert (message.body, message.content_type, message.attributes, message.deadline_at, message.ready_at) == (
            draft.body,
            draft.content_type,
            draft.attributes,
            draft.deadline_at,
            verbs.now + draft.delay_ms if draft.delay_ms else 0,
        )
    verbs.now += 1
    claimed = verbs.claim(limit=1_000)
    assert sorted(message.body for message in claimed) == sorted(draft.body for draft in drafts)
    verbs.ack(*claimed)
    assert [row.body_hash for row in verbs.rows()] == [ids.body_hash(b"%d" % n) for n in range(100)]


def test_many_that_share_all_but_their_bodies(verbs):
    verbs.create()
    attributes = {"kind": "bulk"}
    drafts = [Draft(b"%d" % n, "text/html", attributes, 5, verbs.now + 1_000, group="g") for n in range(100)]
    verbs.send(*drafts)
    found = [(it.body, it.content_type, it.attributes, it.ready_at, it.deadline_at) for it in verbs.peek()]
    shared = "text/html", attributes, verbs.now + 5, verbs.now + 1_000
    assert found == [(draft.body, *shared) for draft in drafts]


@pytest.mark.parametrize("dedup", [Dedup.SEND, Dedup.CLAIM])
def test_twins_among_many_are_found_by_their_keys(verbs, dedup):
    verbs.create(dedup=dedup)
    verbs.send(*(Draft(b"%d" % n, dedup_key=b"%016d" % (n // 2)) for n in range(100)))
    assert [message.body for message in verbs.claim(limit=1_000)] == [b"%d" % n for n in range(0, 100, 2)]


def test_without_drafts_no_message_is_sent(verbs):
    verbs.create()
    assert verbs.send() == []
    assert verbs.tally().arrived == 0


def test_a_message_carries_what_its_draft_said(verbs):
    verbs.create()
    attributes = {"Straße": "naïve ☃", "": "", "quote": '"\\\n\x00', "emoji": "🌊"}
    draft = Draft(b"x", content_type="text/plain; charset=utf-8", attributes=attributes, deadline_at=verbs.now + 9)
    [sent] = verbs.send(draft)
    assert verbs.peek() == [
        Message(
            id=sent.id,
            seq=1,
            queue="q",
            body=b"x",
            content_type="text/plain; charset=utf-8",
            attributes=attributes,
            sent_at=verbs.now,
            ready_at=0,
            receives=0,
            claim=0,
            deadline_at=verbs.now + 9,
        )
    ]


def test_no_attributes_and_empty_attributes_are_the_same(verbs):
    verbs.create()
    verbs.send(Draft(b"a"), Draft(b"b", attributes={}))
    assert [message.attributes for message in verbs.peek()] == [None, None]


def test_an_id_is_a_uuid_that_carries_time_and_sequence(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"a", to="other")
    [sent] = verbs.send(b"b")
    [message] = verbs.peek()
    assert str(UUID(sent.id)) == sent.id
    assert ids.seq_of(sent.id) == message.seq == 2
    assert int(sent.id.replace("-", "")[:12], 16) == verbs.now


def test_sequence_numbers_rise_over_all_queues_and_are_never_used_twice(verbs):
    verbs.create()
    verbs.create("other")
    verbs.send(b"a", b"b")
    verbs.send(b"c", to="other")
    verbs.ack(*verbs.claim(), *verbs.claim(queue="other"))
    verbs.send(b"d")
    assert [message.seq for message in verbs.peek()] == [4]
    assert verbs.last_seq() == 4


def test_the_same_body_twice_is_two_messages(verbs):
    verbs.create()
    first, second = verbs.send(b"same", Draft(b"same", dedup_key=b"k"))
    assert first.id != second.id
    assert verbs.seen() == [b"same", b"same"]


def test_the_delay_of_the_queue_holds_for_messages_without_their_own(verbs):
    verbs.create(delay_ms=500)
    verbs.send(Draft(b"queue's"), Draft(b"own", delay_ms=100), Draft(b"none", delay_ms=0))
    now = verbs.now
    assert [(message.body, message.ready_at) for message in verbs.peek()] == [
        (b"none", 0),
        (b"own", now + 100),
        (b"queue's", now + 500),
    ]


def test_a_delayed_message_is_handed_out_when_its_time_has_come_and_not_before(verbs):
    verbs.create()
    verbs.send(Draft(b"later", delay_ms=100))
    assert verbs.bodies() == []
    verbs.now += 99
    assert verbs.bodies() == []
    verbs.now += 1
    assert verbs.bodies() == [b"later"]


def test_a_delayed_message_takes_its_place_by_age_not_by_the_end_of_its_delay(verbs):
    verbs.create()
    verbs.send(Draft(b"1", delay_ms=300), Draft(b"2", delay_ms=100), Draft(b"3"))
    verbs.now += 300
    assert verbs.bodies() == [b"1", b"2", b"3"]


def test_the_result_says_that_a_message_was_stored(verbs):
    verbs.create()
    [sent] = verbs.send(b"x")
    assert sent == Sent(verbs.peek()[0].id, stored=True)


def test_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.send(b"x", to="nowhere")
    assert verbs.last_seq() == 0
