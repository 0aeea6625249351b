"""Consumers that give no sign of life: what becomes of their messages, and of themselves when they come back."""

from __future__ import annotations

import signal
import threading

import pytest

from devtools.databases import stat_of
from penstock.clock import system_clock
from tests.gq.conftest import DEAD_AFTER_S, PATIENCE_S, at_work, bodies, consumers, dead_consumer, until
from tests.gq.faults import make_faulty
from tests.gq.workers import Worker
from tests.servers import ShiftedClock


def quick(**options):
    """A consumer of a test that really waits."""
    return {"heartbeat_s": 0.1, "dead_after_s": 0.6} | options


def declare_all_dead(client):
    """As another process would, to whom five seconds have passed."""
    with client._access.unit() as (unit, now):
        return unit.consumers.reap(now + 60_000)


@pytest.fixture
def hours_later():
    clock = ShiftedClock()
    clock.advance(7200)
    return clock


class TestMessages:
    def test_of_a_dead_consumer_come_back(self, client, opened, hours_later):
        with client.producer(batch=3) as producer:
            for number in range(3):
                producer.push(str(number))
        dead_consumer(client, 2)
        assert bodies(client, 1) == [b"2"]
        assert bodies(opened(clock=hours_later), 2) == [b"0", b"1"]
        assert consumers(client) == []

    def test_at_most_once_they_have_failed(self, client, opened, hours_later):
        with client.producer(batch=3) as producer:
            pushed = [producer.push(str(number)) for number in range(3)]
        dead_consumer(client, 2, "at_most_once")
        assert bodies(opened(clock=hours_later), 1, delivery="at_most_once") == [b"2"]
        assert [client.status(one) for one in pushed] == ["failed", "failed", "processed"]

    def test_that_others_have_taken_since_are_left_alone(self, client, clock):
        with client.producer() as producer:
            pushed = producer.push(b"x", clock() / 1000 + 60)
        dead_consumer(client, delivery="at_most_once")
        clock.advance(DEAD_AFTER_S + 1)
        [message] = dead_consumer(client)
        assert message.receives == 2
        with client._access.unit() as (unit, now):
            assert unit.consumers.reap(now) == 1  # the first of them
        assert client.status(pushed) == "consumed"

    def test_come_back_through_the_sweep_of_a_server(self, client, clock):
        pushed = client.producer().push(b"x")
        dead_consumer(client)
        clock.advance(DEAD_AFTER_S + 1)
        with client._access.unit() as (unit, now):
            unit.sweep(now, 100, 0)
        assert (client.status(pushed), consumers(client)) == ("queued", [])

    def test_come_back_while_another_consumer_waits(self, client, clock):
        client.producer().push(b"x")
        seen = []
        with at_work(client.consumer(heartbeat_s=0.05, dead_after_s=60), seen.append):
            until(lambda: seen == [b"x"])
            client.producer("other").push(b"y")
            dead_consumer(client, queue="other")
            with client._access.unit() as (unit, _now):
                unit.session.engine.run("UPDATE consumer SET beat_at = 0 WHERE holding <> '[]'")
            until(lambda: len(consumers(client)) == 1)
        assert bodies(client, 1, queue="other") == [b"y"]


class TestAConsumerThatWasDeclaredDead:
    def test_registers_again_and_goes_on(self, client):
        seen = []
        with at_work(client.consumer(), seen.append) as consumer:
            until(lambda: consumers(client))
            assert declare_all_dead(client) == 1
            client.producer().push(b"x")
            until(lambda: seen and consumers(client) == [consumer.id])
        assert seen == [b"x"]
        assert consumer.lost == 0

    def test_registers_again_at_its_next_heartbeat(self, client):
        """Also while there is nothing to claim, and while a callback runs."""
        began, may_end = threading.Event(), threading.Event()

        def wait(_):
            began.set()
            may_end.wait(PATIENCE_S)

        with at_work(client.consumer(heartbeat_s=0.05, dead_after_s=60), wait) as consumer:
            until(lambda: consumers(client))
            assert declare_all_dead(client) == 1
            until(lambda: consumers(client) == [consumer.id])
            pushed = client.producer().push(b"x")
            assert began.wait(PATIENCE_S)
            assert declare_all_dead(client) == 1
            until(lambda: consumers(client) == [consumer.id])
            may_end.set()
            until(lambda: client.status(pushed) == "processed")
        assert consumer.lost == 0

    def test_leaves_a_deleted_queue_deleted(self, client, caplog):
        with at_work(client.consumer(heartbeat_s=0.05, dead_after_s=60), print):
            until(lambda: consumers(client))
            with client._access.unit() as (unit, now):
                unit.delete_queue("default", now)
            until(lambda: "its queue was deleted" in caplog.text)
            with client._access.unit(write=False) as (unit, _now):
                assert unit.find_queue("default") is None

    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_does_not_begin_what_it_has_lost(self, client, delivery, caplog):
        with client.producer(batch=3) as producer:
            pushed = [producer.push(str(number)) for number in range(3)]
        began, may_end, seen, lost = threading.Event(), threading.Event(), [], []

        def wait(payload):
            seen.append(payload)
            began.set()
            may_end.wait(PATIENCE_S)

        consumer = client.consumer(delivery=delivery, heartbeat_s=0.05, dead_after_s=60, on_lost=lost.append)
        with at_work(consumer, wait):
            assert began.wait(PATIENCE_S)
            declare_all_dead(client)
            taken = dead_consumer(client)
            until(lambda: "declared dead" in caplog.text)
            may_end.set()
            until(lambda: len(lost) == 3)
        assert seen == [b"0"]
        assert sorted(lost) == sorted(pushed)
        assert consumer.lost == 3
        assert all(one in caplog.text for one in pushed)
        if delivery == "at_least_once":
            assert [message.id for message in taken] == pushed
            assert {client.status(one) for one in pushed} == {"consumed"}
        else:
            assert taken == []
            assert {client.status(one) for one in pushed} == {"failed"}

    def test_has_processed_what_no_other_has_taken(self, client, caplog):
        """The message at hand was given back, but its claim is still the latest."""
        pushed = client.producer().push(b"x")
        began, may_end = threading.Event(), threading.Event()

        def wait(_):
            began.set()
            may_end.wait(PATIENCE_S)

        with at_work(client.consumer(), wait) as consumer:
            assert began.wait(PATIENCE_S)
            declare_all_dead(client)
            assert client.status(pushed) == "queued"
            may_end.set()
            until(lambda: client.status(pushed) == "processed")
        assert consumer.lost == 0

    def test_says_so_when_another_has_processed_its_message(self, client):
        pushed = client.producer().push(b"x")
        began, may_end, lost = threading.Event(), threading.Event(), []

        def wait(_):
            began.set()
            may_end.wait(PATIENCE_S)

        with at_work(client.consumer(heartbeat_s=0.05, dead_after_s=60, on_lost=lost.append), wait) as consumer:
            assert began.wait(PATIENCE_S)
            declare_all_dead(client)
            assert bodies(client, 1) == [b"x"]
            may_end.set()
            until(lambda: lost)
        assert (lost, consumer.lost) == ([pushed], 1)


class TestOutOfTouch:
    def test_a_consumer_asks_before_it_goes_on(self, client):
        """It could not give a sign of life for so long that it may have been declared dead, and it was."""
        with client.producer(batch=3) as producer:
            pushed = [producer.push(str(number)) for number in range(3)]
        faulty = make_faulty(client)
        seen, lost = [], []

        def cut_off(payload):
            seen.append(payload)
            if payload == b"0":
                faulty.before = 1_000_000
                until(lambda: not consumer._membership.is_surely_alive)
                # The other threads of the client use the same connection.
                with client._access._lock, faulty._store.unit() as unit:
                    unit.consumers.reap(client._access.now() + 60_000)
                threading.Timer(0.2, setattr, (faulty, "before", 0)).start()

        consumer = client.consumer(**quick(), on_lost=lost.append)
        with at_work(consumer, cut_off):
            until(lambda: client.status(pushed[2]) == "processed")
        # The first was processed before anybody else took it; the others were begun only once they were claimed again.
        assert seen == [b"0", b"1", b"2"]
        assert lost == pushed[1:]
        assert {client.status(one) for one in pushed} == {"processed"}

    def test_a_consumer_that_was_not_missed_goes_on(self, client):
        with client.producer(batch=3) as producer:
            pushed = [producer.push(str(number)) for number in range(3)]
        faulty = make_faulty(client)
        seen = []

        def cut_off(payload):
            seen.append(payload)
            if payload == b"0":
                faulty.before = 1_000_000
                until(lambda: not consumer._membership.is_surely_alive)
                faulty.before = 5

        consumer = client.consumer(**quick())
        with at_work(consumer, cut_off):
            until(lambda: client.status(pushed[2]) == "processed")
        assert (seen, consumer.lost) == ([b"0", b"1", b"2"], 0)


class TestUnitsWhoseEndNobodyKnows:
    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_a_claim_that_was_never_heard_of_goes_back(self, client, delivery):
        with client.producer(batch=3) as producer:
            pushed = [producer.push(str(number)) for number in range(3)]
        make_faulty(client).after = 1
        assert bodies(client, 3, delivery=delivery) == [b"0", b"1", b"2"]
        assert {client.status(one) for one in pushed} == {"processed"}

    @pytest.mark.parametrize("batch", [1, 3])
    def test_an_outcome_that_had_arrived_is_not_lost(self, client, batch):
        with client.producer(batch=6) as producer:
            pushed = [producer.push(str(number)) for number in range(6)]
        faulty = make_faulty(client)
        seen = []

        def fail_at_the_second(payload):
            seen.append(payload)
            if payload == b"1":
                faulty.after = 2

        with at_work(client.consumer(batch=batch), fail_at_the_second) as consumer:
            until(lambda: {client.status(one) for one in pushed} == {"processed"})
        assert (len(seen), consumer.lost) == (6, 0)

    def test_a_farewell_that_had_arrived(self, client, caplog):
        pushed = client.producer().push(b"x")
        faulty = make_faulty(client)
        consumer = client.consumer()

        def stop(_):
            faulty.after = 2
            consumer.stop()

        with at_work(consumer, stop):
            until(lambda: not consumers(client) and client.status(pushed) == "processed")
        assert consumer.lost == 0
        assert "declared dead" not in caplog.text


class TestRealProcesses:
    @pytest.mark.parametrize("end", ["exit", "die"])
    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_that_die_in_a_callback(self, client, url, end, delivery):
        with client.producer(batch=3) as producer:
            pushed = [producer.push(b"1"), producer.push(end), producer.push(b"3")]
        with Worker(url, **quick(delivery=delivery)) as worker:
            assert worker.wait() == (7 if end == "exit" else -signal.SIGKILL)
            assert worker.lines() == ["begin 1", "end 1", f"begin {end}"]
        seen = []
        with at_work(client.consumer(**quick(delivery=delivery)), seen.append):
            until(lambda: "consumed" not in map(client.status, pushed) and "queued" not in map(client.status, pushed))
        if delivery == "at_least_once":
            assert {client.status(one) for one in pushed} == {"processed"}
            assert set(seen) >= {end.encode(), b"3"}
        else:
            assert client.status(pushed[1]) == client.status(pushed[2]) == "failed"
            assert seen == []  # also what it had not begun: that cannot be known

    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_that_stand_still_for_long(self, client, url, delivery):
        """Stopped by a signal of its own in the middle of a batch, and continued when others have taken over."""
        with client.producer(batch=2) as producer:
            pushed = [producer.push(b"freeze"), producer.push(b"2")]
        with Worker(url, **quick(delivery=delivery)) as worker:
            assert worker.line() == "begin freeze"
            until(lambda: stat_of(worker.pid)[0] == "T")
            seen = []
            with at_work(client.consumer(**quick(delivery=delivery)), seen.append):
                until(lambda: {client.status(one) for one in pushed} <= {"processed", "failed"})
                worker.send(signal.SIGCONT)
                assert worker.line() == "end freeze"
                assert sorted(worker.line() for _ in range(2)) == sorted(f"lost {one}" for one in pushed)
            worker.send(signal.SIGTERM)
            assert worker.lines() == ["stopped, handlers restored"]
        assert seen == ([b"freeze", b"2"] if delivery == "at_least_once" else [])

    def test_that_hang_past_the_deadline(self, client, url, clock):
        with Worker(url, dead_after_s=3600) as worker:
            until(lambda: consumers(client))
            pushed = client.producer().push(b"hang", system_clock() / 1000 + 600)
            assert worker.line() == "begin hang"
            clock.advance(601)
            assert bodies(client, 1) == [b"hang"]
        assert client.status(pushed) == "processed"

    def test_that_hang_past_the_deadline_at_most_once(self, client, url, clock):
        with Worker(url, delivery="at_most_once", dead_after_s=3600) as worker:
            until(lambda: consumers(client))
            pushed = client.producer().push(b"hang", system_clock() / 1000 + 600)
            assert worker.line() == "begin hang"
            clock.advance(601)
            with at_work(client.consumer(delivery="at_most_once"), lambda _: pytest.fail("it was handed out twice")):
                until(lambda: client.status(pushed) == "failed")
