"""Consumers that a store knows: shares, signs of life, what they hold, and messages that have numbers first."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import (
    Attendance,
    Dedup,
    Delivery,
    Draft,
    Ending,
    Held,
    LedgerMode,
    Message,
    Numbered,
    Outcome,
    Redrive,
    Registration,
    Trace,
)
from penstock.stores import Store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("consumers")


class ConsumerVerbs(Verbs):
    def register(self, name: str, delivery: Delivery = Delivery.AT_LEAST_ONCE, queue: str = "q") -> Registration:
        consumer = Registration(name, queue, delivery, 5_000)
        with self.unit() as unit:
            unit.consumers.register(consumer, self.now)
        return consumer

    def take(self, consumer: Registration, limit: int = 100) -> list[Message]:
        """Claim, and write down what is held."""
        with self.unit() as unit:
            messages = unit.consumers.claim(consumer, limit, self.now).messages
            unit.consumers.hold(consumer.id, [held(message) for message in messages], self.now)
        return messages

    def taken(self, consumer: Registration, limit: int = 100) -> list[bytes]:
        return [message.body for message in self.take(consumer, limit)]

    def attend(self, consumer: Registration) -> set[Held] | None:
        with self.unit() as unit:
            return unit.consumers.attend(consumer.id)

    def report(self, consumer: Registration, *endings: Ending) -> Attendance:
        with self.unit() as unit:
            return unit.consumers.report(consumer, endings, self.now)

    def beat(self, consumer: Registration) -> None:
        with self.unit() as unit:
            unit.consumers.hold(consumer.id, unit.consumers.attend(consumer.id), self.now)

    def reap(self) -> int:
        with self.unit() as unit:
            return unit.consumers.reap(self.now)

    def end_claims(
        self, *messages: Message, outcome: Outcome | None = Outcome.PROCESSED, queue: str = "q", delay_ms: int = 0
    ) -> set[Held]:
        with self.unit() as unit:
            return unit.consumers.end_claims(queue, list(map(held, messages)), outcome, self.now, delay_ms)

    def reserve(self, count: int) -> list[int]:
        with self.unit() as unit:
            return unit.consumers.reserve(count).seqs

    def push(self, seqs: list[int], *bodies: bytes, again: bool = False, queue: str = "q") -> None:
        messages = [Numbered(seq, self.now, Draft(body)) for seq, body in zip(seqs, bodies, strict=True)]
        with self.unit() as unit:
            unit.consumers.push(queue, messages, self.now, again)


def held(message: Message) -> Held:
    return message.seq, message.claim


@pytest.fixture
def verbs(store: Store) -> ConsumerVerbs:
    return ConsumerVerbs(store)


def sent(verbs: ConsumerVerbs, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    verbs.send(*bodies)
    return bodies


class TestReports:
    def test_a_consumer_says_all_at_once(self, verbs):
        verbs.create()
        sent(verbs, 4)
        a = verbs.register("a")
        done, failed, late, rest = map(held, verbs.take(a, 4))
        attendance = verbs.report(
            a, Ending([done], Outcome.PROCESSED), Ending([failed], Outcome.FAILED), Ending([late], None, 1_000)
        )
        assert attendance == Attendance({done, failed, late, rest}, [{done}, {failed}, {late}], ["a"])
        assert [row.outcome for row in verbs.rows()] == [Outcome.PROCESSED, Outcome.FAILED]
        verbs.now += 1_000
        assert verbs.taken(a) == [b"2"]

    def test_what_it_does_not_hold_any_more_has_not_ended(self, verbs):
        verbs.create()
        sent(verbs, 2)
        a = verbs.register("a")
        first, second = map(held, verbs.take(a, 2))
        verbs.report(a, Ending([first], Outcome.PROCESSED))
        seq, claim = second
        endings = [Ending([first, (seq, claim + 1)], Outcome.PROCESSED), Ending([(seq, claim + 1)], None)]
        assert verbs.report(a, *endings).ended == [set(), set()]
        assert verbs.report(a, Ending([first, second], Outcome.PROCESSED)).ended == [{second}]

    def test_those_who_are_alive_stand_in_the_order_of_their_birth(self, verbs):
        verbs.create()
        verbs.create("other")
        b, a = verbs.register("b"), verbs.register("a")
        verbs.register("c", queue="other")
        assert verbs.report(a).living == ["b", "a"]
        verbs.now += 3_000
        verbs.beat(a)
        verbs.now += 3_000
        assert verbs.report(b).living == ["a"]

    def test_one_that_is_not_registered_ends_its_claims_all_the_same(self, verbs):
        verbs.create()
        sent(verbs, 1)
        a = verbs.register("a")
        [message] = map(held, verbs.take(a))
        with verbs.unit() as unit:
            unit.consumers.leave(a.id)
        assert verbs.report(a, Ending([message], Outcome.PROCESSED)) == Attendance(None, [{message}], [])

    def test_a_queue_that_is_gone(self, verbs):
        verbs.create()
        sent(verbs, 1)
        a = verbs.register("a")
        [message] = map(held, verbs.take(a))
        verbs.delete()
        endings = [Ending([message], Outcome.PROCESSED), Ending([], None)]
        assert verbs.report(a, *endings) == Attendance(None, [set(), set()], [])

    def test_a_claim_shares_with_those_it_is_told_of(self, verbs):
        verbs.create()
        sent(verbs, 8)
        a = verbs.register("a")
        with verbs.unit() as unit:
            messages = unit.consumers.claim(a, 4, verbs.now, ["a", "b"]).messages
        assert {message.seq % 2 for message in messages} == {0}


class TestShares:
    def test_one_consumer_has_them_all(self, verbs):
        verbs.create()
        bodies = sent(verbs, 5)
        assert verbs.taken(verbs.register("a")) == bodies

    @pytest.mark.parametrize("among", [2, 3, 5])
    def test_consumers_keep_out_of_each_others_way(self, verbs, among):
        verbs.create()
        sent(verbs, 10 * among)
        consumers = [verbs.register(f"c{number}") for number in range(among)]
        ranks: dict[int, None] = {}
        for consumer in consumers:
            remainders = {message.seq % among for message in verbs.take(consumer, 5)}
            assert len(remainders) == 1
            ranks |= dict.fromkeys(remainders)
        assert list(ranks) == list(range(among))  # in the order of their birth

    def test_a_share_is_taken_oldest_first(self, verbs):
        verbs.create()
        sent(verbs, 20)
        verbs.register("a")
        b = verbs.register("b")
        seqs = [message.seq for message in verbs.take(b, 4)]
        assert seqs == sorted(seqs)
        assert len({seq % 2 for seq in seqs}) == 1
        assert seqs[-1] - seqs[0] == 6

    def test_one_that_finds_too_little_takes_from_the_rest(self, verbs):
        verbs.create()
        bodies = sent(verbs, 10)
        a = verbs.register("a")
        verbs.register("b")
        assert sorted(verbs.taken(a, 8), key=int)[:5] != bodies[:8]
        assert len(verbs.taken(a, 8)) == 2
        assert verbs.taken(a) == []

    def test_the_dead_have_no_share(self, verbs):
        verbs.create()
        a, b = verbs.register("a"), verbs.register("b")
        verbs.now += 3_000
        verbs.beat(b)
        verbs.now += 3_000
        bodies = sent(verbs, 6)
        assert verbs.taken(b, 3) == bodies[:3]  # though the first one is not cleared away yet
        assert verbs.attend(a) == set()

    def test_ranks_move_up(self, verbs):
        verbs.create()
        a, b = verbs.register("a"), verbs.register("b")
        with verbs.unit() as unit:
            unit.consumers.leave(a.id)
        c = verbs.register("c")
        sent(verbs, 8)
        assert {message.seq % 2 for message in verbs.take(b, 2)} == {0}
        assert {message.seq % 2 for message in verbs.take(c, 2)} == {1}

    def test_other_queues_do_not_count(self, verbs):
        verbs.create()
        verbs.create("other")
        verbs.register("a", queue="other")
        b = verbs.register("b")
        bodies = sent(verbs, 4)
        assert verbs.taken(b, 2) == bodies[:2]

    @pytest.mark.parametrize("limits", [Limits(share_rows=4)])
    def test_a_share_is_looked_for_among_the_first_only(self, verbs):
        verbs.create()
        bodies = sent(verbs, 40)
        a = verbs.register("a")
        verbs.register("b")
        assert sorted(verbs.taken(a, 4), key=int) == bodies[:4]


class TestPolicies:
    """What holds for every claim holds for these."""

    def test_retention(self, verbs):
        verbs.create(retention_ms=1_000)
        verbs.send(b"old")
        verbs.now += 1_000
        verbs.send(b"new")
        assert verbs.taken(verbs.register("a")) == [b"new"]
        assert verbs.outcomes() == [Outcome.EXPIRED]

    def test_a_claim_ended_with_a_delay(self, verbs):
        verbs.create()
        verbs.send(b"x", b"y")
        a = verbs.register("a")
        [x, _] = verbs.take(a)
        assert verbs.end_claims(x, outcome=None, delay_ms=500) == {held(x)}
        with verbs.unit() as unit:
            assert unit.consumers.trace(x.id, verbs.now).claimed is False
            assert unit.consumers.first_due("q") == verbs.now + 500
            count = unit.count("q", verbs.now, 10)
        assert (count.delayed, count.claimed) == (1, 1)
        assert verbs.end_claims(x, outcome=None) == {held(x)}  # said again, it changes nothing
        verbs.now += 499
        assert verbs.take(a) == []
        verbs.now += 1
        assert [(message.body, message.receives) for message in verbs.take(a)] == [(b"x", 2)]

    @pytest.mark.parametrize("among", [1, 2])
    def test_redrive(self, verbs, among):
        verbs.create("dead")
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.send(b"x")
        for number in range(among):
            a = verbs.register(f"a{number}")
        verbs.end_claims(*verbs.take(a), outcome=None)
        assert verbs.taken(a) == []
        assert verbs.seen("dead") == [b"x"]

    @pytest.mark.parametrize("among", [1, 2])
    def test_twins_collapse(self, verbs, among):
        verbs.create(dedup=Dedup.CLAIM)
        verbs.send(b"x", b"x", b"y")
        for number in range(among):
            a = verbs.register(f"a{number}")
        assert verbs.taken(a) == [b"x", b"y"]

    @pytest.mark.parametrize("delivery", list(Delivery))
    def test_deadlines(self, verbs, delivery):
        verbs.create()
        verbs.send(*(Draft(b"%d" % ahead, deadline_at=verbs.now + ahead) for ahead in (10, 1_000)), b"none")
        a = verbs.register("a", delivery)
        verbs.now += 10
        messages = verbs.take(a)
        ends = {message.body: message.ready_at for message in messages}
        heeded = {b"1000": verbs.now + 990, b"none": limits.NEVER}
        if delivery is Delivery.AT_LEAST_ONCE:
            assert ends == {b"10": limits.NEVER} | heeded
        else:
            assert ends == heeded
            assert verbs.outcomes() == [Outcome.FAILED]
        assert {message.body: message.ready_at for message in verbs.peek()} == ends

    def test_a_plain_claim_still_heeds_deadlines(self, verbs):
        verbs.create(visibility_ms=50)
        verbs.send(Draft(b"late", deadline_at=verbs.now), Draft(b"x", deadline_at=verbs.now + 10))
        [message] = verbs.claim()
        assert (message.body, message.ready_at) == (b"x", verbs.now + 50)

    def test_no_queue(self, verbs):
        with pytest.raises(QueueNotFound):
            verbs.register("a")
        verbs.create()
        a = verbs.register("a")
        verbs.delete()
        assert verbs.attend(a) is None
        with pytest.raises(QueueNotFound):
            verbs.take(a)

    def test_a_queue_of_the_same_name_is_another(self, verbs):
        verbs.create()
        a = verbs.register("a")
        verbs.delete()
        verbs.create()
        assert verbs.attend(a) is None
        verbs.register("a")
        sent(verbs, 1)
        verbs.take(a)
        verbs.now += 5_000
        assert verbs.reap() == 1
        assert verbs.count().ready == 1


class TestSigns:
    def test_of_life_count_for_their_time(self, verbs):
        verbs.create()
        a = verbs.register("a")
        verbs.now += 4_999
        assert verbs.reap() == 0
        verbs.beat(a)
        verbs.now += 4_999
        assert verbs.reap() == 0
        verbs.now += 1
        assert verbs.reap() == 1
        assert verbs.attend(a) is None

    def test_of_life_from_the_future_count_no_longer(self, verbs):
        """The clock was set back by an hour: no consumer stays alive for that long."""
        verbs.create()
        a, b = verbs.register("a"), verbs.register("b")
        verbs.now -= 3_600_000
        verbs.beat(b)
        assert verbs.reap() == 1
        assert (verbs.attend(a), verbs.attend(b)) == (None, set())

    @pytest.mark.parametrize("limits", [Limits(reap_consumers=2)])
    def test_many_dead_are_cleared_away_in_steps(self, verbs):
        verbs.create()
        for name in "abc":
            verbs.register(name)
        verbs.now += 5_000
        assert [verbs.reap(), verbs.reap(), verbs.reap()] == [2, 1, 0]

    def test_the_sweep_clears_them_away(self, verbs):
        verbs.create()
        a = verbs.register("a")
        sent(verbs, 2)
        verbs.take(a)
        verbs.now += 5_000
        verbs.sweep()
        assert verbs.stirred == {"q"}
        assert verbs.attend(a) is None
        assert verbs.count().ready == 2


class TestHolding:
    @pytest.mark.parametrize("delivery", list(Delivery))
    def test_what_the_dead_held(self, verbs, delivery):
        verbs.create()
        a = verbs.register("a", delivery)
        sent(verbs, 3)
        verbs.take(a, 2)
        verbs.now += 5_000
        verbs.reap()
        if delivery is Delivery.AT_LEAST_ONCE:
            assert (verbs.count().ready, verbs.outcomes(), verbs.stirred) == (3, [], {"q"})
        else:
            assert (verbs.count().total, verbs.outcomes()) == (1, [Outcome.FAILED] * 2)

    @pytest.mark.parametrize("delivery", list(Delivery))
    def test_what_others_have_done_since_stays_done(self, verbs, delivery):
        verbs.create()
        verbs.create("other")
        a = verbs.register("a", delivery)
        sent(verbs, 4)
        released, acked, moved, kept = verbs.take(a)
        verbs.release(released, moved)
        verbs.move("q", "other", through=moved.seq)
        verbs.ack(acked)
        verbs.now += 5_000
        verbs.reap()
        assert verbs.seen("other") == [released.body, moved.body]
        failed = [Outcome.FAILED] if delivery is Delivery.AT_MOST_ONCE else []
        assert verbs.outcomes() == [Outcome.MOVED, Outcome.MOVED, Outcome.PROCESSED, *failed]
        assert verbs.seen() == ([] if failed else [kept.body])

    def test_a_message_that_another_has_claimed(self, verbs):
        verbs.create()
        a, b = verbs.register("a", Delivery.AT_MOST_ONCE), verbs.register("b")
        sent(verbs, 1)
        [message] = verbs.take(a)
        verbs.release(message)
        verbs.now += 3_000
        [again] = verbs.take(b)
        verbs.now += 3_000
        assert verbs.reap() == 1
        assert verbs.end_claims(message) == set()
        assert verbs.end_claims(again) == {held(again)}
        assert verbs.outcomes() == [Outcome.PROCESSED]

    def test_is_as_it_was_last_written(self, verbs):
        verbs.create()
        a = verbs.register("a")
        sent(verbs, 2)
        first, second = verbs.take(a)
        assert verbs.attend(a) == {held(first), held(second)}
        with verbs.unit() as unit:
            unit.consumers.hold(a.id, [held(second)], verbs.now)
        assert verbs.attend(a) == {held(second)}

    @pytest.mark.parametrize("outcome", [Outcome.PROCESSED, Outcome.FAILED, None])
    def test_ending_claims(self, verbs, outcome):
        verbs.create()
        a = verbs.register("a")
        sent(verbs, 3)
        first, second, _third = verbs.take(a)
        assert verbs.end_claims(first, second, outcome=outcome) == {held(first), held(second)}
        assert verbs.outcomes() == ([] if outcome is None else [outcome] * 2)
        assert verbs.count().ready == (2 if outcome is None else 0)
        assert verbs.stirred == ({"q"} if outcome is None else set())
        assert verbs.end_claims(first, outcome=outcome) == ({held(first)} if outcome is None else set())
        assert verbs.end_claims(second, queue="nowhere") == set()


class TestFirstDue:
    def test_of_a_queue(self, verbs):
        def first_due():
            with verbs.unit(write=False) as unit:
                return unit.consumers.first_due("q")

        assert first_due() is None
        verbs.create()
        a = verbs.register("a")
        assert first_due() is None
        verbs.send(b"x")
        assert first_due() == 0
        verbs.take(a)
        assert first_due() is None  # this claim ends only when its consumer dies
        verbs.send(Draft(b"y", delay_ms=70))
        assert first_due() == verbs.now + 70


class TestPush:
    def test_numbers_are_given_out_once(self, verbs):
        verbs.create()
        first = verbs.reserve(3)
        [other] = verbs.send(b"between")
        second = verbs.reserve(2)
        verbs.push(second, b"4", b"5")
        verbs.push(first[:2], b"1", b"2")
        assert verbs.bodies() == [b"1", b"2", b"between", b"4", b"5"]
        assert len({*first, *second, int(other.id[24:], 16)}) == 6

    def test_numbers_may_come_in_any_order(self, verbs):
        verbs.create()
        seqs = verbs.reserve(50)
        mixed = [seqs[0], *reversed(seqs[1:-1]), seqs[-1]]
        verbs.push(mixed, *(b"%d" % seq for seq in mixed))
        assert verbs.bodies() == [b"%d" % seq for seq in seqs]

    def test_again(self, verbs):
        verbs.create()
        seqs = verbs.reserve(3)
        verbs.push(seqs[:2], b"1", b"2")
        verbs.ack(*verbs.claim(1))
        verbs.push(seqs, b"1", b"2", b"3", again=True)
        verbs.push(seqs, b"1", b"2", b"3", again=True)
        assert verbs.tally().arrived == 3
        assert verbs.seen() == [b"2", b"3"]

    def test_again_where_no_ledger_is_kept(self, verbs):
        """What is still there is known, what is gone is not."""
        verbs.create(ledger=LedgerMode.OFF)
        seqs = verbs.reserve(2)
        verbs.push(seqs, b"1", b"2")
        verbs.ack(*verbs.claim(1))
        verbs.push(seqs, b"1", b"2", again=True)
        assert verbs.count().total == 2

    def test_queue_settings_hold(self, verbs):
        verbs.create(delay_ms=70)
        verbs.push(verbs.reserve(1), b"x")
        assert verbs.bodies() == []
        verbs.now += 70
        assert verbs.bodies() == [b"x"]

    def test_twins(self, verbs):
        verbs.create(dedup=Dedup.SEND)
        verbs.push(verbs.reserve(3), b"x", b"x", b"y")
        assert verbs.bodies() == [b"x", b"y"]

    def test_no_queue(self, verbs):
        with pytest.raises(QueueNotFound):
            verbs.push(verbs.reserve(1), b"x")


class TestShipments:
    def test_what_a_shipment_has_taken_over_is_no_longer_the_consumers(self, verbs):
        verbs.create()
        verbs.send(Draft(b"x", deadline_at=verbs.now + 10))
        consumer = verbs.register("a")
        messages = verbs.take(consumer)
        verbs.now += 5
        verbs.release(*messages)
        verbs.ship()
        assert verbs.end_claims(*messages) == set()
        verbs.now += 10_000
        assert verbs.reap() == 1
        assert verbs.shipped() == [b"x"]

    def test_shipped_messages_never_come_due(self, verbs):
        verbs.create()
        verbs.send(b"x")
        verbs.ship()
        with verbs.unit(write=False) as unit:
            assert unit.consumers.first_due("q") is None
        assert verbs.taken(verbs.register("a")) == []

    @pytest.mark.parametrize("ledger", LedgerMode)
    def test_a_message_is_known_by_what_became_of_it(self, verbs, ledger):
        verbs.create(ledger=ledger)
        [message] = verbs.send(b"x")
        verbs.ship()
        with verbs.unit(write=False) as unit:
            assert unit.consumers.trace(message.id, verbs.now) == Trace(None, claimed=True)
        verbs.shipments.settle(keep=True)
        with verbs.unit(write=False) as unit:
            known = None if ledger is LedgerMode.OFF else Trace(Outcome.PROCESSED)
            assert unit.consumers.trace(message.id, verbs.now) == known
