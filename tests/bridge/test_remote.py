"""A broker in another process: its verbs, its errors, and what becomes of calls when either side goes."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec import Raw

from penstock.bridge import frames
from penstock.bridge.calls import Calls, SendCall, VerbCall, encode
from penstock.bridge.frames import FrameWriter
from penstock.errors import InvalidRequest, QueueExists, QueueNotFound, SettingFixed, StoreSilent, StoreUnavailable
from penstock.model import Dedup, DedupScope, Draft, Groups, Message, QueueChange, Receipt, Settings, ShipmentRef
from tests.bridge.conftest import Bridged, result


async def test_a_message_goes_over_the_bridge_and_back(bridged: Bridged) -> None:
    broker = bridged.remote
    await result(broker.create_queue("q", Settings(visibility_ms=60_000)))
    [sent] = await result(broker.send("q", [Draft(b"\x00\xff", "text/plain", {"a": "b"}, dedup_key=b"k")]))
    assert sent.stored
    [message] = await result(broker.claim("q", 10))
    assert (message.id, message.body, message.content_type) == (sent.id, b"\x00\xff", "text/plain")
    assert message.attributes == {"a": "b"}
    assert await result(broker.ack([Receipt(message.id, message.claim, "q"), Receipt("no such")])) == [True, False]
    assert (await result(broker.count("q"))).total == 0


async def test_what_is_left_out_of_a_change_stays(bridged: Bridged) -> None:
    broker = bridged.remote
    await result(broker.create_queue("q", Settings(visibility_ms=7, delay_ms=5)))
    queue = await result(broker.update_queue("q", QueueChange(delay_ms=0, dedup=Dedup.SEND)))
    assert queue.settings == Settings(visibility_ms=7, delay_ms=0, dedup=Dedup.SEND)


async def test_other_nouns_are_reached_as_well(bridged: Bridged) -> None:
    broker = bridged.remote
    await result(broker.create_queue("q", Settings()))
    await result(broker.send("q", [Draft(b"1"), Draft(b"2")]))
    ref = ShipmentRef("q", "c", 1)
    claimed = await result(broker.shipments.claim(ref, 10, 60_000))
    assert claimed.shipment.messages == 2
    assert [message.body for message in await result(broker.shipments.read(ref, 0, 10))] == [b"1", b"2"]
    await result(broker.shipments.settle(ref))
    assert len(await result(broker.ledger.rows(0, 10))) == 2
    assert await result(broker.find_queues(["q", "no"])) == [*(await result(broker.list_queues(0, 9))).queues, None]


async def test_errors_come_back_as_themselves(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    with pytest.raises(QueueExists):
        await result(bridged.remote.create_queue("q", Settings()))
    with pytest.raises(QueueNotFound) as caught:
        await result(bridged.remote.send("no", [Draft(b"")]))
    assert caught.value.name == "no"


async def test_calls_of_one_turn_leave_in_one_frame(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    written: list[bytes] = []
    write = bridged.bridge._transport.write

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(bridged.edge_transport, name)

        def write(self, data: bytes) -> None:
            written.append(bytes(data))
            write(data)

    bridged.bridge.connection_made(Counting())
    pendings = [bridged.remote.send("q", [Draft(b"x")]) for _ in range(50)]
    pendings.append(bridged.remote.claim("q", 1))
    await asyncio.gather(*map(result, pendings))
    assert len(written) == 1


async def test_a_committer_that_does_not_answer_refuses_and_is_taken_up_again(bridged: Bridged) -> None:
    broker = bridged.remote
    loop = asyncio.get_running_loop()
    for queue in ("q", "poll"):
        await result(broker.create_queue(queue, Settings()))
    await result(broker.send("q", [Draft(b"1")]))
    waits = result(broker.claim("poll", 1, 60_000, 60_000))
    await asyncio.sleep(0)  # it leaves
    while not bridged.local.waiting_claims():
        await asyncio.sleep(0.001)
    since = loop.time()
    # Under way, and not answered yet.
    late = [broker.claim("q", 1, 60_000), broker.claim("poll", 1, 60_000, 60_000), broker.send("q", [Draft(b"2")])]
    broker.fall_silent("no answer", since)
    late += [broker.list_queues(0, 1), broker.send("q", [Draft(b"refused")]), broker.check()]
    for pending in late:
        with pytest.raises(StoreSilent, match="no answer"):
            await result(pending)
    broker.speak_again()
    assert broker.bridge is bridged.bridge
    # What was claimed for those who were refused is given back; what had not left has not happened.
    [one] = await result(broker.claim("q", 1, 60_000, 60_000))
    [two] = await result(broker.claim("q", 1, 60_000, 60_000))
    assert {one.body, two.body} == {b"1", b"2"}
    await result(broker.send("poll", [Draft(b"first"), Draft(b"second")]))
    [message] = await waits
    assert message.body == b"first"
    [other] = await result(broker.claim("poll", 1, 60_000, 60_000))
    assert other.body == b"second"


async def test_a_claim_whose_time_is_over_while_the_committer_is_silent_is_told(bridged: Bridged) -> None:
    broker = bridged.remote
    await result(broker.create_queue("q", Settings()))
    hung = broker.claim("q", 1, 60_000, 50)
    bridged.desk_transport.pause_reading()
    broker.fall_silent("no answer", asyncio.get_running_loop().time())
    with pytest.raises(StoreSilent):
        await result(hung)
    bridged.desk_transport.resume_reading()
    broker.speak_again()
    assert (await result(broker.count("q"))).total == 0


async def test_a_claim_whose_caller_has_gone_is_called_off(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    pending = bridged.remote.claim("q", 1, wait_ms=60_000)
    answer = asyncio.ensure_future(result(pending))
    while not bridged.local.waiting_claims():
        await asyncio.sleep(0)
    assert not pending.cancel()
    assert await answer == []
    assert bridged.local.waiting_claims() == []


async def test_what_was_claimed_before_its_caller_had_gone_is_given_back_and_not_told(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    await result(bridged.remote.send("q", [Draft(b"x")]))
    pending = bridged.remote.claim("q", 1, wait_ms=60_000)
    told: list[object] = []
    pending.listen(told.append, told.append)
    await asyncio.sleep(0)  # the call has left
    pending.abandon()
    [message] = await result(bridged.remote.claim("q", 1, wait_ms=20_000))
    assert (message.body, message.receives) == (b"x", 2)
    assert told == []


async def test_one_that_calls_off_and_still_listens_gets_what_was_claimed_and_no_other_does(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    await result(bridged.remote.send("q", [Draft(b"x")]))
    pending = bridged.remote.claim("q", 1, wait_ms=60_000)
    answer = asyncio.ensure_future(result(pending))
    await asyncio.sleep(0)
    pending.cancel()
    [message] = await answer
    assert (message.body, message.receives) == (b"x", 1)
    assert await result(bridged.remote.claim("q", 1)) == []


async def test_a_claim_that_is_called_off_at_once_does_not_wait(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    pending = bridged.remote.claim("q", 1, wait_ms=60_000)
    pending.cancel()
    assert await result(pending) == []
    assert bridged.local.waiting_claims() == []


async def test_an_attempt_goes_over_the_bridge(bridged: Bridged) -> None:
    broker = bridged.remote
    await result(broker.create_queue("q", Settings()))
    await result(broker.send("q", [Draft(b"1"), Draft(b"2"), Draft(b"3")]))
    first = await result(broker.claim("q", 1, 60_000, 0, "t"))
    again = await result(broker.claim("q", 1, 60_000, 0, "t"))
    assert [(one.id, one.claim) for one in again] == [(one.id, one.claim) for one in first]
    assert [one.body for one in await result(broker.claim("q", 1, 60_000, 0, "u"))] == [b"2"]
    assert [one.body for one in await result(bridged.local.claim("q", 1, 60_000, 0, "t"))] == [b"1"]


async def test_what_was_claimed_with_an_attempt_is_not_taken_from_the_one_who_asks_again(bridged: Bridged) -> None:
    """Its caller has lost the connection, and asks by another one."""
    broker = bridged.remote
    await result(broker.create_queue("q", Settings()))
    await result(broker.send("q", [Draft(b"x")]))
    pending = broker.claim("q", 1, 60_000, 60_000, "t")
    pending.listen(lambda _: None, lambda _: None)
    await asyncio.sleep(0)
    pending.abandon()
    [message] = await result(broker.claim("q", 1, 60_000, 20_000, "t"))
    assert (message.body, message.receives, message.claim) == (b"x", 1, 1)
    assert (await result(broker.count("q"))).claimed == 1
    assert await result(broker.claim("q", 1)) == []
    assert not bridged.bridge._with_attempt


async def test_groups_windows_and_labels_go_over_the_bridge(bridged: Bridged) -> None:
    broker = bridged.remote
    settings = Settings(groups=Groups.FIFO, dedup=Dedup.WINDOW, dedup_scope=DedupScope.GROUP, labels={"k": "\u00e4"})
    assert (await result(broker.create_queue("q", settings))).settings == settings
    sent, twin, other = await result(
        broker.send("q", [Draft(b"x", dedup_key=b"k", group=group) for group in ("a", "a", "b")])
    )
    assert (twin.stored, twin.id, other.stored) == (False, sent.id, True)
    one, two = await result(broker.claim("q", 10))
    assert (one.group, two.group, one.first_claimed_at is not None) == ("a", "b", True)
    changed = await result(broker.update_queue("q", QueueChange(labels={"k": None, "l": "m"})))
    assert changed.settings.labels == {"l": "m"}
    with pytest.raises(SettingFixed):
        await result(broker.update_queue("q", QueueChange(groups=Groups.OFF)))
    with pytest.raises(InvalidRequest):
        await result(broker.send("q", [Draft(b"x", group="a", delay_ms=5)]))
    assert await result(broker.locate([Receipt(one.id), Receipt("none")])) == ["q", None]
    assert [queue.name for queue in await result(broker.page_queues("q", "", 10))] == ["q"]
    assert await result(broker.dead_letter_sources("q", "", 10)) == []


async def test_a_check_that_is_not_answered_is_rejected(bridged: Bridged) -> None:
    bridged.desk_transport.pause_reading()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await result(bridged.bridge.call_within("check", (), 0.05))
    bridged.desk_transport.resume_reading()
    await result(bridged.remote.check())


async def test_while_the_committer_is_far_behind_calls_are_refused(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    bridged.desk_transport.pause_reading()
    answers = []
    for _ in range(100):
        answers.append(asyncio.ensure_future(result(bridged.remote.send("q", [Draft(bytes(1 << 20))]))))
        await asyncio.sleep(0)
    refused = [answer for answer in answers if answer.done()]
    assert 20 < len(refused) < 40
    for answer in refused:
        with pytest.raises(StoreUnavailable, match="far behind"):
            answer.result()
    bridged.desk_transport.resume_reading()
    for answer in answers:
        if answer not in refused:
            [sent] = await answer
            assert sent.stored


async def test_claims_of_an_edge_that_has_gone_are_called_off(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    answers = [asyncio.ensure_future(result(bridged.remote.claim("q", 1, wait_ms=60_000))) for _ in range(3)]
    while len(bridged.local.waiting_claims()) < 3:
        await asyncio.sleep(0)
    bridged.edge_transport.abort()
    while bridged.local.waiting_claims():
        await asyncio.sleep(0)
    assert bridged.gone == [bridged.desk]
    for answer in answers:
        with pytest.raises(StoreUnavailable):
            await answer


async def test_calls_under_way_are_refused_when_the_committer_has_gone_and_so_are_new_ones(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    waiting = asyncio.ensure_future(result(bridged.remote.claim("q", 1, wait_ms=60_000)))
    while not bridged.local.waiting_claims():
        await asyncio.sleep(0)
    bridged.desk_transport.abort()
    with pytest.raises(StoreUnavailable, match="another one takes over soon"):
        await waiting
    with pytest.raises(StoreUnavailable):
        await result(bridged.remote.send("q", [Draft(b"x")]))
    with pytest.raises(StoreUnavailable):
        await result(bridged.remote.check())


async def test_a_new_bridge_takes_over(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    bridged.desk_transport.abort()
    old = bridged.edge_transport
    await bridged.cross()
    old.abort()
    await asyncio.sleep(0.01)
    [sent] = await result(bridged.remote.send("q", [Draft(b"x")]))
    assert sent.stored


def frame(number: int, content: bytes, version: int = frames.VERSION, length: int | None = None) -> bytes:
    return frames.HEADER.pack(len(content) if length is None else length, number, version) + content


EMPTY = b"\x95" + b"\x90" * 5
BROKEN = {
    "noise": (b"\xff" * 64, "version 255, not 2"),
    "not a frame's content": (frame(0, b"\xc1"), "DecodeError"),
    "a text that is not UTF-8": (frame(0, b"\x95\x91\x94\x00\xa2\xc3\x28\x90\xc0" + b"\x90" * 4), "Error("),
    "content cut short": (frame(0, EMPTY[:-1]), "truncated"),
    "more than is known": (frame(0, b"\x96" + b"\x90" * 6), "ValidationError"),
    "doubled": (frame(0, EMPTY) * 2, "frame 0 came where frame 1 was expected"),
    "one left out": (frame(0, EMPTY) + frame(2, EMPTY), "frame 2 came where frame 1 was expected"),
    "of another version": (frame(0, EMPTY, version=frames.VERSION + 1), "version 3, not 2"),
    "too long": (frame(0, b"", length=frames.LONGEST + 1), "too long"),
}


@pytest.mark.parametrize("side", ["edge", "desk"])
@pytest.mark.parametrize("case", BROKEN)
async def test_what_cannot_be_read_ends_the_bridge(
    bridged: Bridged, side: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("penstock").propagate = True
    data, reason = BROKEN[case]
    transport = bridged.edge_transport if side == "desk" else bridged.desk_transport
    transport.write(data)
    await bridged.ended()
    assert "has broken" in caplog.text
    assert reason in caplog.text


@pytest.mark.parametrize("verb", ["no_such", "check.of", "__class__"])
async def test_a_verb_that_is_not_known_ends_the_bridge(bridged: Bridged, verb: str) -> None:
    calls = Calls([], [], [], [VerbCall(1, verb, Raw(encode(())))], [])
    bridged.edge_transport.write(FrameWriter().frame(calls))
    await bridged.ended()


async def test_an_answer_to_nothing_ends_the_bridge(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    bridged.desk.answer_claim(1_000, [])
    with pytest.raises(StoreUnavailable):
        await result(bridged.remote.claim("q", 1, wait_ms=60_000))
    await bridged.ended()


async def test_a_frame_that_is_cut_off_is_not_served(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    calls = Calls([SendCall(9, "q", [Draft(b"x")], None)], [], [], [], [])
    writer = FrameWriter()
    writer.frame(calls)  # the first was the creation
    bridged.edge_transport.write(writer.frame(calls)[:-1])
    await asyncio.sleep(0.01)
    bridged.edge_transport.close()
    await bridged.ended()
    assert (await result(bridged.local.count("q"))).total == 0


async def test_calls_that_cannot_be_written_are_refused(bridged: Bridged) -> None:
    sent = asyncio.ensure_future(result(bridged.remote.send("\ud800", [Draft(b"x")])))
    with pytest.raises(StoreUnavailable):
        await sent
    await bridged.ended()


async def test_callers_whose_answers_cannot_be_written_are_refused(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings()))
    waiting = asyncio.ensure_future(result(bridged.remote.claim("q", 1, wait_ms=60_000)))
    while not bridged.local.waiting_claims():
        await asyncio.sleep(0)
    bridged.desk.answer_claim(2, [Message("\ud800", 1, "q", b"", None, None, 0, 0, 1, 1, None)])
    with pytest.raises(StoreUnavailable):
        await waiting
    await bridged.ended()
    assert bridged.local.waiting_claims() == []


async def test_an_edge_that_takes_no_answers_is_not_listened_to(bridged: Bridged) -> None:
    await result(bridged.remote.create_queue("q", Settings(visibility_ms=0)))
    await result(bridged.remote.send("q", [Draft(bytes(1_000_000))]))
    bridged.edge_transport.pause_reading()
    answers = []
    for _ in range(100):
        answers.append(asyncio.ensure_future(result(bridged.remote.peek("q", 1))))
        await asyncio.sleep(0.001)
    assert not bridged.desk_transport.is_reading()
    assert bridged.desk_transport.get_write_buffer_size() < 50_000_000
    waiting = asyncio.ensure_future(result(bridged.remote.claim("q", 1)))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    bridged.edge_transport.resume_reading()
    assert len(await waiting) == 1
    for messages in await asyncio.gather(*answers):
        assert len(messages[0].body) == 1_000_000


async def test_calls_wait_here_while_the_committer_does_not_read(bridged: Bridged) -> None:
    """No more is written than is read: as many calls wait as there are clients, since each has one."""
    await result(bridged.remote.create_queue("q", Settings()))
    bridged.desk_transport.pause_reading()
    sends = []
    for _ in range(200):
        sends += [asyncio.ensure_future(result(bridged.remote.send("q", [Draft(bytes(1000))]))) for _ in range(50)]
        await asyncio.sleep(0)
    assert bridged.edge_transport.get_write_buffer_size() < 1_000_000
    assert not any(send.done() for send in sends)
    bridged.desk_transport.resume_reading()
    assert all(one.stored for [one] in await asyncio.gather(*sends))
