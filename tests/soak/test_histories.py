"""Random histories of an honest queue, with answers that are late or lost: the checker finds nothing in them, and finds
it when one message is taken away."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from soak import rules
from tests.soak.story import Instants, Story


@dataclass
class Held:
    """A message of the honest queue."""

    tag: str
    group: str | None
    ready_at: float = 0
    claim: int = 0
    receives: int = 0
    is_promised: bool = False
    may_be_acked: bool = False


class Honest:
    """One queue that does as it says, and clients whose requests take effect at some instant while they are on their
    way. An answer may be lost."""

    def __init__(self, story: Story, random: Random, groups: bool) -> None:
        self._story = story
        self._random = random
        self._groups = groups
        self._now = 10.0
        self._numbers = dict.fromkeys("abc", 0)
        # A producer sends one request after another.
        self._free_at = dict.fromkeys("abc", 0.0)
        self.there: list[Held] = []
        self._receipts: list[tuple[Held, int]] = []
        if groups:
            story.queue("q", groups="fifo")

    def step(self) -> None:
        self._now += self._random.expovariate(1)
        self._random.choice([self._send, self._send, self._claim, self._claim, self._claim, self._ack, self._ack,
                             self._release, self._renew])()  # fmt: skip

    def _instants(self) -> Instants:
        return self._now - self._random.expovariate(2), self._now + self._random.expovariate(2)

    def _is_lost(self) -> bool:
        return self._random.random() < 0.2

    def _send(self) -> None:
        producer = self._random.choice("abc")
        begin, end = self._instants()
        begin = max(begin, self._free_at[producer] + 1e-6)
        if begin > self._now:
            return
        self._free_at[producer] = end
        group = f"{producer}{self._random.randint(1, 2)}" if self._groups else None
        is_lost = self._is_lost()
        tags = []
        for _ in range(self._random.randint(1, 3)):
            self._numbers[producer] += 1
            tags.append(f"{producer}-{self._numbers[producer]}")
        if not is_lost or self._random.random() < 0.5:
            self.there += [Held(tag, group, is_promised=not is_lost) for tag in tags]
        outcome = "perhaps" if is_lost else "ok"
        self._story.send(" ".join(tags), (begin, end), outcome=outcome, **({"group": group} if group else {}))

    def _claim(self) -> None:
        instants, hold_s = self._instants(), self._random.uniform(0.5, 6)
        taken, closed = [], set()
        for held in self.there:
            if held.ready_at > self._now or held.group in closed:
                closed.add(held.group) if held.group else None
            elif len(taken) < 3:
                taken.append(held)
            else:
                closed.add(held.group) if held.group else None
        for held in taken:
            held.ready_at, held.claim, held.receives = self._now + hold_s, held.claim + 1, held.receives + 1
        client = self._random.choice("xyz")
        if self._is_lost():
            self._story.tell("claim", instants, client, outcome="perhaps", hold_s=hold_s)
            return
        messages = [[held.tag, f"id-{held.tag}", f"{held.tag}.{held.claim}", held.receives] for held in taken]
        self._story.tell("claim", instants, client, messages=messages, hold_s=hold_s)
        self._receipts += [(held, held.claim) for held in taken]

    def _touch(self, op: str, **words: float) -> None:
        if not self._receipts:
            return
        held, claim = self._random.choice(self._receipts)
        done = held in self.there and held.claim == claim and (not held.group or held.ready_at > self._now)
        if done and op == "ack":
            self.there.remove(held)
        elif done:
            held.ready_at = self._now + words.get("hold_s", 0)
        outcome = "perhaps" if self._is_lost() else "ok"
        held.may_be_acked |= op == "ack" and (outcome == "perhaps" or done)
        self._story.touch(op, held.tag, self._instants(), self._random.choice("xyz"), receipt=f"{held.tag}.{claim}",
                          done=done, outcome=outcome, **words)  # fmt: skip

    def _ack(self) -> None:
        self._touch("ack")

    def _release(self) -> None:
        self._touch("release")

    def _renew(self) -> None:
        self._touch("renew", hold_s=self._random.uniform(0.2, 8))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 150), groups=st.booleans())
def test_an_honest_queue_is_found_innocent(seed: int, steps: int, groups: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        honest = Honest(story, Random(seed), groups)
        for _ in range(steps):
            honest.step()
        story.end(left=" ".join(held.tag for held in honest.there), at=10_000)
        assert story.judge().findings == []


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 100))
def test_a_message_that_is_taken_away_is_missed(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        honest = Honest(story, Random(seed), groups=False)
        for _ in range(steps):
            honest.step()
        certain = [held for held in honest.there if held.is_promised and not held.may_be_acked]
        left = [held.tag for held in honest.there if held not in certain[:1]]
        story.end(left=" ".join(left), at=10_000)
        assert story.broken() == ({rules.LOST} if certain else set())
