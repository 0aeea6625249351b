"""Three instances, a directory and a clock, against a dictionary that says what the queue must hold.

PENSTOCK_EXAMPLES=2000 looks longer, and at other examples each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.vsqs import Queue, QueueFull
from tests.vsqs.conftest import Clock, files

CAPACITY = 6
which = st.integers(0, 2)


class Model(RuleBasedStateMachine):
    """The model: for each message its payload and the end of its claim, 0 while there is none."""

    def __init__(self, folder: Path, watch: bool) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(dir=folder))
        self.clock = Clock()
        # One that counts, one that does not, one that names its messages by the microsecond.
        self.queues = [
            Queue(self.path, CAPACITY, clock=self.clock, watch=watch, sweep_after=1e9),
            Queue(self.path, clock=self.clock, watch=watch, sweep_after=1e9),
            Queue(self.path, None, "us", clock=self.clock, watch=watch, sweep_after=1e9),
        ]
        self.messages: dict[int, tuple[bytes, int]] = {}
        self.ever: list[str] = []

    def teardown(self) -> None:
        for queue in self.queues:
            queue.close()
        shutil.rmtree(self.path)

    @rule(ms=st.sampled_from([1, 100, 1_000, 20_000]))
    def pass_time(self, ms: int) -> None:
        self.clock.pass_(ms / 1000)

    @rule(index=which, payload=st.binary(max_size=3))
    def publish(self, index: int, payload: bytes) -> None:
        if index == 0 and len(self.messages) >= CAPACITY:
            with pytest.raises(QueueFull):
                self.queues[0].publish(payload, timeout=0)
            return
        id_ = self.queues[index].publish(payload)
        assert id_ not in self.ever
        self.ever.append(id_)
        self.messages[int(id_)] = (payload, 0)

    @rule(index=which, hold_ms=st.sampled_from([0, 50, 1_000, 1_000_000]))
    def receive(self, index: int, hold_ms: int) -> None:
        # The clock moves with every look at it, so a claim that ends within those is left out of the test.
        if any(self.clock.ms <= until < self.clock.ms + 40 for _, until in self.messages.values()):
            self.clock.pass_(0.1)
        now = self.clock.ms
        id_, payload = self.queues[index].receive(hold_ms / 1000, timeout=0)
        ready = [number for number, (_, until) in self.messages.items() if until <= now]
        if id_ is None:
            assert not ready
            return
        assert int(id_) == min(ready)
        assert payload == self.messages[int(id_)][0]
        [claimed] = [name for name in files(self.path) if name.startswith(f"{id_}.")]
        until = int(claimed.partition(".")[2])
        assert now <= until - hold_ms <= self.clock.ms
        self.messages[int(id_)] = (payload, until)

    @rule(index=which, pick=st.integers(0, 50))
    def delete(self, index: int, pick: int) -> None:
        id_ = self.ever[pick % len(self.ever)] if self.ever else "5"
        present = int(id_) in self.messages or (self.path / f"{id_}.new").exists() or (self.path / f"{id_}.x").exists()
        assert self.queues[index].delete(id_) is present
        self.messages.pop(int(id_), None)

    @rule(index=which)
    def reopen(self, index: int) -> None:
        """As after a crash between two calls."""
        old = self.queues[index]
        precision = "us" if index == 2 else "ms"
        capacity = None if index else CAPACITY
        self.queues[index] = Queue(
            self.path, capacity, precision, clock=self.clock, watch=old._watched, sweep_after=1e9
        )
        old.close()

    @rule(name=st.sampled_from(["x", ".5", "5.new", "5.x", "07"]))
    def litter(self, name: str) -> None:
        (self.path / name).write_bytes(b"litter")

    @invariant()
    def sizes_agree(self) -> None:
        assert {queue.size() for queue in self.queues} == {len(self.messages)}

    @invariant()
    def every_message_is_one_file(self) -> None:
        found = [name.partition(".")[0] for name in files(self.path) if name[0] not in "x.05"]
        assert sorted(map(int, found)) == sorted(self.messages)


@pytest.mark.parametrize("watch", [True, False], ids=["watched", "polled"])
def test_the_queue_does_as_the_model(tmp_path: Path, watch: bool) -> None:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path
    examples = os.environ.get("PENSTOCK_EXAMPLES")
    try:
        run_state_machine_as_test(
            lambda: Model(folder, watch),
            settings=settings(
                max_examples=int(examples or 40),
                stateful_step_count=int(os.environ.get("PENSTOCK_STEPS", "40")),
                derandomize=examples is None,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        shutil.rmtree(folder)
