"""The store and a dictionary side by side, under whatever Hypothesis thinks of."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.errors import QueueExists, QueueNotFound
from penstock.model import Draft, Receipt, Settings
from tests.mqcore.disk import Desk, open_root, places

QUEUES = ("a", "b")
names = st.sampled_from(QUEUES)


class MqCore(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="mqcore-"))
        self.desk = Desk(open_root(self.root, sync_threads=1))
        # By queue, in order of age: the id of each message, its body and the end of its claim.
        self.model: dict[str, dict[str, tuple[bytes, int]]] = {}
        self.gone: list[tuple[str, str]] = []

    def teardown(self) -> None:
        self.desk.store.close()
        shutil.rmtree(self.root)

    @rule(name=names)
    def create(self, name: str) -> None:
        try:
            self.desk.create(name)
        except QueueExists:
            assert name in self.model
        else:
            assert name not in self.model
            self.model[name] = {}

    @rule(name=names)
    def delete(self, name: str) -> None:
        try:
            self.desk.delete(name)
        except QueueNotFound:
            assert name not in self.model
        else:
            self.gone += [(name, message_id) for message_id in self.model.pop(name)]

    @rule(name=names, bodies=st.lists(st.binary(max_size=20), max_size=4))
    def send(self, name: str, bodies: list[bytes]) -> None:
        try:
            ids = self.desk.send(*bodies, to=name)
        except QueueNotFound:
            assert name not in self.model
        else:
            for message_id, body in zip(ids, bodies, strict=True):
                self.model[name][message_id] = (body, 0)

    @rule(name=names, limit=st.integers(1, 4), hold_ms=st.sampled_from([0, 1, 50, 1_000]))
    def claim(self, name: str, limit: int, hold_ms: int) -> None:
        now = self.desk.now
        try:
            messages = self.desk.claim(limit, hold_ms, name)
        except QueueNotFound:
            assert name not in self.model
            return
        ready = [(message_id, body) for message_id, (body, until) in sorted(self.model[name].items()) if until <= now]
        assert [(message.id, message.body) for message in messages] == ready[:limit]
        for message in messages:
            if hold_ms:
                self.model[name][message.id] = (message.body, now + hold_ms)

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        live = [(name, message_id) for name, messages in self.model.items() for message_id in messages]
        chosen = data.draw(st.lists(st.sampled_from(live + self.gone), max_size=3)) if live or self.gone else []
        with self.desk.store.unit() as unit:
            done = unit.ack([Receipt(message_id, queue=name) for name, message_id in chosen], self.desk.now)
        for (name, message_id), was_there in zip(chosen, done, strict=True):
            assert was_there == (self.model.get(name, {}).pop(message_id, None) is not None)
            self.gone.append((name, message_id))

    @rule(name=names)
    def lose_a_unit(self, name: str) -> None:
        """Whatever a unit has done that does not end well is taken back."""
        live = list(self.model.get(name, ()))[:1]
        try:
            with self.desk.store.unit() as unit:
                unit.send(name, [Draft(b"lost"), Draft(b"lost too")], self.desk.now)
                unit.ack([Receipt(message_id, queue=name) for message_id in live], self.desk.now)
                unit.claim(name, 3, self.desk.now, 1_000)
                unit.create_queue("c", Settings(), self.desk.now)
                raise ZeroDivisionError
        except QueueNotFound:
            assert name not in self.model
        except ZeroDivisionError:
            assert name in self.model

    @rule(ms=st.integers(1, 200))
    def pass_time(self, ms: int) -> None:
        self.desk.now += ms

    @rule()
    def sweep(self) -> None:
        self.desk.sweep()

    @rule()
    def reopen(self) -> None:
        now = self.desk.now
        self.desk.store.close()
        self.desk = Desk(open_root(self.root, sync_threads=1))
        # Ids of another process sort after these only from the next millisecond on.
        self.desk.now = now + 1

    @precondition(lambda self: self.model)
    @invariant()
    def the_counts_are_right(self) -> None:
        for name, messages in self.model.items():
            count = self.desk.count(name)
            claimed = sum(until > self.desk.now for _, until in messages.values())
            assert (count.total, count.claimed, count.ready) == (len(messages), claimed, len(messages) - claimed)

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        where = places(self.root)
        assert set(where) == {message_id for messages in self.model.values() for message_id in messages}
        assert all(times == 1 for times in where.values())


TestMqCore = MqCore.TestCase
TestMqCore.settings = settings(
    max_examples=int(os.environ.get("PENSTOCK_EXAMPLES", "40")),
    stateful_step_count=int(os.environ.get("PENSTOCK_STEPS", "25")),
    deadline=None,
)
