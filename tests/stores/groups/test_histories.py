"""Random histories of two queues with groups, against the rule written out: what may be claimed is found from scratch,
from a plain list of messages, before every claim.

PENSTOCK_EXAMPLES=2000 looks longer, and at other histories each time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model import Draft, Groups, Receipt
from penstock.stores import Store
from tests.stores.conftest import Verbs, check_lines

pytestmark = pytest.mark.needs("messages", "moves")

QUEUES = ("here", "there")
# A group is one of two or none.
groups = st.sampled_from(["a", "a", "b", None])
queues = st.sampled_from([0, 0, 1])
which = st.lists(st.integers(0, 30), min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("send"), queues, st.lists(groups, min_size=1, max_size=4)),
    st.tuples(st.just("claim"), queues, st.sampled_from([1, 2, 3, 100]), st.sampled_from([0, 5, 5, 20])),
    st.tuples(st.just("ack"), which),
    st.tuples(st.just("ack_by_id"), which),
    st.tuples(st.just("release"), which, st.sampled_from([0, 0, 6])),
    st.tuples(st.just("renew"), which, st.sampled_from([-3, 0, 8, 30]), st.booleans()),
    st.tuples(st.just("let_time_pass"), st.sampled_from([1, 4, 5, 15])),
    st.tuples(st.just("purge"), queues, st.sampled_from([0, 1, 3])),
    st.tuples(st.just("move"), queues, st.booleans(), st.booleans()),
)
histories = st.lists(steps, min_size=5, max_size=int(os.environ.get("PENSTOCK_STEPS", "40")))


@dataclass
class One:
    """A message, as the rule sees it: `place` is its place in the order of the store."""

    place: int
    name: bytes
    queue: int
    group: str | None
    delayed_until: int
    claim: int = 0
    received: bool = False
    held_until: int = 0
    put_off: bool = False

    def is_held(self, now: int) -> bool:
        return self.held_until > now and not self.put_off


class History:
    """Two queues of a store, and what they should hold."""

    def __init__(self, verbs: Verbs, names: tuple[str, str], delays: tuple[int, int]) -> None:
        self.verbs = verbs
        self.names = names
        self.delays = delays
        self.all: list[One] = []
        self.claims: list[tuple[bytes, int, str]] = []
        self.places = itertools.count(1)
        self.ids: dict[bytes, str] = {}
        for name, delay_ms in zip(names, delays, strict=True):
            verbs.create(name, groups=Groups.FIFO, delay_ms=delay_ms)

    @property
    def now(self) -> int:
        return self.verbs.now

    # The rule

    def lines(self, queue: int) -> list[list[One]]:
        """By age; a message without a group is a line of its own."""
        lines: dict[object, list[One]] = {}
        for one in sorted(self.all, key=lambda one: one.place):
            if one.queue == queue:
                lines.setdefault(one.group or one.place, []).append(one)
        return list(lines.values())

    def is_hidden(self, one: One) -> bool:
        return one.held_until > self.now or (not one.received and one.delayed_until > self.now)

    def claimable(self, queue: int) -> Iterator[One]:
        for line in self.lines(queue):
            yield from itertools.takewhile(lambda one: not self.is_hidden(one), line)

    # The verbs, on both

    def send(self, queue: int, wanted: list[str | None]) -> None:
        drafts = []
        for group in wanted:
            place = next(self.places)
            one = One(place, b"%d" % place, queue, group, self.now + self.delays[queue])
            self.all.append(one)
            drafts.append(Draft(one.name, group=group))
        for draft, sent in zip(drafts, self.verbs.send(*drafts, to=self.names[queue]), strict=True):
            self.ids[draft.body] = sent.id

    def claim(self, queue: int, limit: int, hold_ms: int) -> None:
        expected = list(itertools.islice(self.claimable(queue), limit))
        for one in expected:
            one.claim += 1
            one.received = True
            one.held_until = self.now + hold_ms if hold_ms else 0
            one.put_off = False
        claimed = self.verbs.claim(limit, hold_ms, self.names[queue])
        assert [(message.body, message.claim) for message in claimed] == [(one.name, one.claim) for one in expected]
        self.claims += [(message.body, message.claim, message.id) for message in claimed]

    def _picked(self, picks: list[int]) -> tuple[list[One | None], list[Receipt]]:
        """Of the claims made so far: the message of each that lasts, and the receipts."""
        chosen = [self.claims[pick % len(self.claims)] for pick in dict.fromkeys(picks)] if self.claims else []
        by_name = {one.name: one for one in self.all}
        found = [by_name.get(name) for name, _, _ in chosen]
        good = [
            one if one is not None and (one.claim, self.ids[name]) == (claim, id_) and one.is_held(self.now) else None
            for one, (name, claim, id_) in zip(found, chosen, strict=True)
        ]
        return good, [Receipt(id_, claim) for _, claim, id_ in chosen]

    def ack(self, picks: list[int]) -> None:
        good, receipts = self._picked(picks)
        gone = []
        for one in good:
            gone.append(one is not None and one in self.all)
            if one is not None and one in self.all:
                self.all.remove(one)
        assert self.verbs.ack(*receipts) == gone

    def ack_by_id(self, picks: list[int]) -> None:
        """Wherever the message is, and whatever holds it."""
        chosen = [self.all[pick % len(self.all)] for pick in picks[:1] if self.all]
        self.all = [one for one in self.all if one not in chosen]
        assert self.verbs.ack(*(Receipt(self.ids[one.name]) for one in chosen)) == [True] * len(chosen)

    def release(self, picks: list[int], delay_ms: int) -> None:
        good, receipts = self._picked(picks)
        for one in good:
            if one is not None:
                one.held_until, one.put_off = self.now + delay_ms if delay_ms else 0, delay_ms > 0
        assert self.verbs.release(*receipts, delay_ms=delay_ms) == [one is not None for one in good]

    def renew(self, picks: list[int], ms: int, shorten: bool) -> None:
        good, receipts = self._picked(picks)
        until = self.now + ms
        for one in good:
            if one is not None and (shorten or until > one.held_until):
                one.held_until = until
        assert self.verbs.renew(*receipts, until=until, shorten=shorten) == [one is not None for one in good]

    def let_time_pass(self, ms: int) -> None:
        self.verbs.now += ms

    def purge(self, queue: int, left: int) -> None:
        """All but those that were sent last."""
        doomed = sorted((one for one in self.all if one.queue == queue), key=lambda one: one.place)
        doomed = doomed[: len(doomed) - left] if left else doomed
        through = self._seq(doomed[-1]) if doomed else 0
        assert self.verbs.purge(self.names[queue], through=through) == len(doomed)
        self.all = [one for one in self.all if one not in doomed]

    def move(self, queue: int, claimed: bool, as_new: bool) -> None:
        """All that may go, to the other queue."""
        there = 1 - queue
        going = [one for one in self.all if one.queue == queue and (claimed or not one.is_held(self.now))]
        waits = {one.place: self.is_hidden(one) and not one.is_held(self.now) for one in going}
        assert self.verbs.move(*(self.names[one] for one in (queue, there)), claimed=claimed, as_new=as_new) == len(
            going
        )
        for one in sorted(going, key=lambda one: one.place):
            until = max(one.held_until, 0 if one.received else one.delayed_until)
            one.queue = there
            if as_new:
                one.place, one.claim = next(self.places), 0
                one.delayed_until = self.now + self.delays[there]
            elif one.group is None:
                one.delayed_until = until if waits[one.place] else 0
            else:
                one.delayed_until = self._sent_at(one) + self.delays[there]
            one.received, one.held_until, one.put_off = False, 0, False
        for message in self.verbs.peek(self.names[there]):
            self.ids[message.body] = message.id

    def _sent_at(self, one: One) -> int:
        return int(self.ids[one.name].replace("-", "")[:12], 16)

    def _seq(self, one: One) -> int:
        return int(self.ids[one.name][24:], 16)

    # What must hold after every step

    def check(self) -> None:
        for queue, name in enumerate(self.names):
            messages = self.verbs.peek(name)
            expected = [one for line in self.lines(queue) for one in line]
            assert sorted(message.body for message in messages) == sorted(one.name for one in expected)
            found = self.verbs.find(name)
            assert found is not None
            check_lines(found, messages)
            self._check_count(queue, name)

    def _check_count(self, queue: int, name: str) -> None:
        claimed = [one for line in self.lines(queue) for one in line if one.is_held(self.now)]
        put_off = [one for line in self.lines(queue) for one in line if one.put_off and one.held_until > self.now]
        # Those behind another have no instant: their delay counts when their turn comes.
        firsts = [line[0] for line in self.lines(queue)]
        delayed = [one for one in firsts if not one.received and one.delayed_until > self.now]
        total = sum(map(len, self.lines(queue)))
        count = self.verbs.count(name)
        assert (count.total, count.claimed, count.delayed) == (total, len(claimed), len(put_off) + len(delayed))
        assert (count.ready, count.exact) == (total - count.claimed - count.delayed, True)
        due = [one.held_until for one in claimed + put_off] + [one.delayed_until for one in delayed]
        assert self.verbs.next_due(name) == min(due, default=None)

    def drain(self) -> None:
        """Nothing is stuck: all of it can be claimed and acked, each line in its order."""
        self.verbs.now += 1_000
        for queue, name in enumerate(self.names):
            left = [one.name for line in self.lines(queue) for one in line if one.group is not None]
            drained = []
            while messages := self.verbs.claim(2, 1_000, name):
                assert self.verbs.ack(*messages) == [True] * len(messages)
                drained += [message.body for message in messages if message.group is not None]
            assert sorted(drained) == sorted(left)
            for group in ("a", "b"):
                of_group = [one.name for line in self.lines(queue) for one in line if one.group == group]
                assert [name for name in drained if name in of_group] == of_group


EXAMPLES = {"memory": 150, "sqlite": 60, "postgresql": 25, "mariadb": 25}


@pytest.mark.timeout(600)  # the examples take their time where other tests keep the machine busy
def test_any_history(store: Store, request: pytest.FixtureRequest) -> None:
    numbers = itertools.count()
    wanted = os.environ.get("PENSTOCK_EXAMPLES")
    kind = request.node.callspec.params["kind"]

    @settings(
        max_examples=int(wanted or EXAMPLES[kind]),
        derandomize=wanted is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(history=histories, delays=st.tuples(st.sampled_from([0, 0, 7]), st.sampled_from([0, 0, 7])))
    def play(history: list[tuple[Any, ...]], delays: tuple[int, int]) -> None:
        number = next(numbers)
        verbs = Verbs(store)
        both = History(verbs, (f"here {number}", f"there {number}"), delays)
        for verb, *arguments in history:
            getattr(both, verb)(*arguments)
            both.check()
        both.drain()
        for name in both.names:
            verbs.delete(name)

    play()
