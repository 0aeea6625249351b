"""Clients that do one thing after another to a small store, by a seed, and write down what they saw.

For faults of the disk, which need a store that is opened again thousands of times and looked at as a whole. One class
for each kind of store: `step` does something, `look` tells all that is left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Protocol

from soak.apis import Api, Delivery, Emodb, Mqcore, Mqs, Native, SqsJson
from soak.history import OK, PERHAPS, REFUSED, Event, Recorder, body_of, tag_of
from soak.talk import Talk, Unanswered, Unreachable

# Longer than any round, so that what is claimed stays so.
HOLD_S = 3600.0
SIZES = (20, 20, 500, 9000)
_DAY_NS = 86_400 * 10**9
# A message that was left halfway is delivered after a grace of some seconds.
_PATIENCE_S = 60


class Script(Protocol):
    def step(self) -> str:
        """Do one thing; its outcome."""

    def close(self) -> None: ...


class Tags:
    """Of one producer, in a row."""

    def __init__(self, producer: str) -> None:
        self._producer = producer
        self._number = 0

    def __call__(self, count: int = 1) -> list[str]:
        first, self._number = self._number + 1, self._number + count
        return [f"{self._producer}-{number}" for number in range(first, self._number + 1)]


class MixedScript:
    """Requests of all kinds, through the APIs of a SQL store: on a plain queue, on one of groups, on one that is purged
    now and then, and on one that comes and goes."""

    PLAIN, LINES, PURGED, FLEETING = "plain", "lines", "purged", "fleeting"
    HOLD: ClassVar[dict[str, object]] = {"visibility_ms": int(HOLD_S * 1000)}
    QUEUES: ClassVar[dict[str, dict[str, object]]] = {
        PLAIN: HOLD,
        LINES: {**HOLD, "groups": "fifo"},
        PURGED: HOLD,
        FLEETING: HOLD,
    }

    def __init__(self, url: str, recorder: Recorder, random: Random, sizes: Sequence[int] = SIZES) -> None:
        self._talk = Talk([url])
        self._recorder = recorder
        self._random = random
        self._sizes = sizes
        self._tags = Tags(recorder.client)
        self._native = Native(self._talk, recorder)
        others = [api(self._talk, recorder) for api in (Mqs, Emodb, SqsJson)]
        self._apis: list[Api] = [self._native, *others]
        self._unmade = list(self.QUEUES)
        self._held: list[tuple[Api, str, Delivery]] = []

    def step(self) -> str:
        verbs = [self._send, self._claim, self._ack, self._renew, self._release, self._purge, self._delete]
        verb = self._random.choices(verbs, [8, 5, 5, 1, 1, 0.5, 0.3])[0]
        try:
            while self._unmade:
                if self._make() == PERHAPS:
                    return PERHAPS
            return verb()
        except Unreachable:
            return PERHAPS

    def _ask(self, op: str, queue: str, method: str, path: str, body: object = None, **words: object) -> str:
        """What only the native API has."""
        event = self._recorder.begin(op, queue, **words)
        try:
            status = self._talk(method, path, body).status
        except (Unanswered, Unreachable):
            status = 0
        self._recorder.end(event, outcome_of(status), status=status)
        return outcome_of(status)

    def _make(self) -> str:
        queue = self._unmade[0]
        settings = self.QUEUES[queue]
        outcome = self._ask("queue", queue, "PUT", f"/v1/queues/{queue}", settings, settings=settings)
        # Refused: another client was faster, or an answer was lost.
        if outcome != PERHAPS:
            self._unmade.remove(queue)
        return outcome

    def _send(self) -> str:
        queue = self._random.choices(list(self.QUEUES), [6, 4, 1, 1])[0]
        api = self._random.choice([self._native, *self._apis]) if queue == self.PLAIN else self._native
        tags = self._tags(min(api.most, self._random.choice([1, 1, 2, 5])))
        group = f"g{self._random.randrange(3)}" if queue == self.LINES else None
        event = api.send(queue, tags, self._random.choice(self._sizes), group)
        if event["outcome"] == REFUSED and queue == self.FLEETING:
            self._unmade.append(queue)
        return str(event["outcome"])

    def _claim(self) -> str:
        queue = self._random.choice([self.PLAIN, self.PLAIN, self.LINES])
        api = self._random.choice(self._apis) if queue == self.PLAIN else self._native
        found = api.claim(queue, min(api.most, self._random.randint(1, 4)), HOLD_S, 0)
        self._held += [(api, queue, delivery) for delivery in found]
        return OK

    def _some_held(self) -> list[tuple[Api, str, Delivery]]:
        """Of one queue and one API, which has receipts of its own. They are not asked about again: what may have been
        done once would be answered otherwise the second time."""
        self._random.shuffle(self._held)
        chosen = [held for held in self._held if held[:2] == self._held[0][:2]][: self._random.randint(1, 3)]
        self._held = [held for held in self._held if held not in chosen]
        return chosen

    def _ack(self) -> str:
        if not self._held:
            return self._claim()
        chosen = self._some_held()
        api, queue, _ = chosen[0]
        return str(api.ack(queue, [delivery for _, _, delivery in chosen])["outcome"])

    def _renew(self) -> str:
        chosen = [held for held in self._held if held[0] is self._native][:2]
        if not chosen:
            return self._claim()
        queue = chosen[0][1]
        deliveries = [delivery for _, of, delivery in chosen if of == queue]
        return str(self._native.renew(queue, deliveries, HOLD_S)["outcome"])

    def _release(self) -> str:
        chosen = [held for held in self._held if held[0] is self._native][:1]
        if not chosen:
            return self._claim()
        self._held.remove(chosen[0])
        return str(self._native.release(chosen[0][1], [chosen[0][2]])["outcome"])

    def _purge(self) -> str:
        return self._ask("purge", self.PURGED, "POST", f"/v1/queues/{self.PURGED}/purge")

    def _delete(self) -> str:
        """As a purge to the checker: it is made again at the next step."""
        self._unmade.append(self.FLEETING)
        return self._ask("purge", self.FLEETING, "DELETE", f"/v1/queues/{self.FLEETING}")

    def close(self) -> None:
        self._talk.close()


def outcome_of(status: int) -> str:
    """0: no answer."""
    if 200 <= status < 300:
        return OK
    return REFUSED if 400 <= status < 500 else PERHAPS


def look_by_native(url: str, recorder: Recorder, made: set[str]) -> None:
    """All that a store of the native API holds: what may be claimed is, then everything is shown and counted. The
    queues that were `made` for certain must be there."""
    talk = Talk([url])
    native = Native(talk, recorder)

    def ask(path: str) -> Any:
        reply = talk("GET", path)
        assert reply.status == 200, f"{path} of a store that is well was answered {reply}"
        return reply.json

    there = {queue["name"] for queue in ask("/v1/queues?limit=1000")["queues"]}
    for queue in MixedScript.QUEUES:
        comes_and_goes = queue == MixedScript.FLEETING
        if queue not in there:
            assert comes_and_goes or queue not in made, f"the queue {queue} is lost"
            continue
        # It takes more, under ids of their own.
        event = native.send(queue, [f"{recorder.client}-{queue}-1"], 20)
        assert event["outcome"] == OK, f"a send to a store that is well: {event}"
        native.claim(queue, 1_000, HOLD_S, 0)
        path = page = f"/v1/queues/{queue}/messages?limit=10000"
        while found := (shown := ask(page))["messages"]:
            recorder.note("left", queue, messages=[(tag_of(one["body"]), one["id"]) for one in found])
            page = f"{path}&after={shown['after']}"
        shown = ask(f"/v1/queues/{queue}")
        if not comes_and_goes:  # a queue that was made again counts from 0
            recorder.note("count", queue, total=shown["count"]["total"], **shown["tally"])
    words = ("number", "queue", "id", "outcome", "receives")
    rows = [[row[word] for word in words] for row in ask("/v1/ledger?limit=10000")["rows"]]
    recorder.note("ledger", rows=rows)
    recorder.note("seen", queues=list(MixedScript.QUEUES), ledger=True)
    talk.close()


class MqCoreScript:
    """The six endpoints of MQ-Core."""

    QUEUE = "q"

    def __init__(self, url: str, recorder: Recorder, random: Random, sizes: Sequence[int] = SIZES) -> None:
        self._talk = Talk([url])
        self._recorder = recorder
        self._api = Mqcore(self._talk, recorder)
        self._random = random
        self._sizes = sizes
        self._tags = Tags(recorder.client)
        self._made = False
        self._held: list[Delivery] = []

    def step(self) -> str:
        try:
            if not self._made:
                return self._make()
            verb = self._random.choices([self._send, self._claim, self._ack, self._other_queue], [8, 5, 4, 0.3])[0]
            return verb()
        except (Unreachable, Unanswered):
            return PERHAPS

    def _make(self) -> str:
        event = self._recorder.begin("queue", self.QUEUE, settings={})
        outcome = outcome_of(self._talk("PUT", f"/{self.QUEUE}").status)
        self._recorder.end(event, outcome)
        self._made = outcome == OK
        return outcome

    def _other_queue(self) -> str:
        """It is made, gets a message, and is deleted with it."""
        other = f"{self._recorder.client}-other"
        self._talk("PUT", f"/{other}")
        self._talk("POST", f"/{other}/messages", b"of no account")
        return outcome_of(self._talk("DELETE", f"/{other}").status)

    def _send(self) -> str:
        return str(self._api.send(self.QUEUE, self._tags(), self._random.choice(self._sizes))["outcome"])

    def _claim(self) -> str:
        self._held += self._api.claim(self.QUEUE, 1, HOLD_S, 0)
        return OK

    def _ack(self) -> str:
        if not self._held:
            return self._claim()
        delivery = self._held.pop(self._random.randrange(len(self._held)))
        return str(delete(self._talk, self._recorder, self.QUEUE, delivery)["outcome"])

    def close(self) -> None:
        self._talk.close()


def delete(talk: Talk, recorder: Recorder, queue: str, delivery: Delivery) -> Event:
    """There are no receipts: 202 means that it is gone."""
    event = recorder.begin("ack", queue, messages=[[delivery.tag, delivery.id, None]])
    try:
        outcome = outcome_of(talk("DELETE", f"/{queue}/messages/{delivery.id}").status)
    except (Unanswered, Unreachable):
        outcome = PERHAPS
    return recorder.end(event, outcome, done=[True] if outcome == OK else None)


def look_by_files(root: Path, recorder: Recorder, queue: str) -> set[str]:
    """All that the folders of an MQ-Core store hold, before a server has seen them: the ids that must be delivered."""
    found = [(path.name, path) for path in sorted((root / "queues" / queue).glob("*"))]
    for folder in ("new", "delay"):
        # What was never written to its end may not be read.
        whole = [path for path in sorted((root / folder).glob(f"{queue}:*")) if path.stat().st_mode & 0o400]
        found += [(path.name.partition(":")[2], path) for path in whole]
    recorder.note("left", queue, messages=[(tag_of(path.read_text()), message) for message, path in found])
    recorder.note("seen", queues=[queue])
    ids = [message for message, _ in found]
    assert len(ids) == len(set(ids)), f"a message is in two places: {sorted(ids)}"
    return set(ids)


def end_holds(root: Path, recorder: Recorder) -> None:
    """As if the time of all that is claimed had run out; while no server has the store."""
    for path in (root / "delay").glob("*"):
        os.utime(path, (0, 0))
    recorder.note("clock", jump_s=HOLD_S)


def claim_ready(url: str, recorder: Recorder, queue: str) -> set[str]:
    """The ids of all that may be claimed."""
    talk = Talk([url])
    api = Mqcore(talk, recorder)
    claimed: set[str] = set()
    while found := api.claim(queue, 1, HOLD_S, 0):
        claimed.update(delivery.id for delivery in found)
    talk.close()
    return claimed


def drain_by_mqcore(url: str, recorder: Recorder, queue: str, ids: set[str]) -> None:
    """All of these are delivered and can be deleted, and so can one more."""
    talk = Talk([url])
    api = Mqcore(talk, recorder)
    assert talk("PUT", f"/{queue}").status == 201
    event = api.send(queue, [f"{recorder.client}-1"], 20)
    assert event["outcome"] == OK, f"a send to a store that is well: {event}"
    expected = {*ids, *event["ids"]}
    until = time.monotonic() + _PATIENCE_S
    while expected:
        found = api.claim(queue, 1, HOLD_S, 0)
        if not found:
            assert time.monotonic() < until, f"these were never delivered: {sorted(expected)}"
            time.sleep(0.02)
        for delivery in found:
            assert delivery.id in expected, f"{delivery} was delivered, and it was not there"
            expected.discard(delivery.id)
            delete(talk, recorder, queue, delivery)
    talk.close()


class VsqsApi:
    """The library, in the words of the other APIs. An error is an outcome."""

    QUEUE = "vsqs"

    def __init__(self, path: Path, recorder: Recorder) -> None:
        from penstock.vsqs import Queue

        self._queue = Queue(path, precision="us")
        self._recorder = recorder

    def send(self, queue: str, tags: list[str], size: int) -> Event:
        [tag] = tags
        event = self._recorder.begin("send", queue, messages=[tag])
        try:
            message = self._queue.publish(body_of(tag, size).encode())
        except OSError:
            # Then the message is not in the queue.
            return self._recorder.end(event, REFUSED)
        return self._recorder.end(event, OK, ids=[message])

    def claim(self, queue: str) -> list[Delivery]:
        event = self._recorder.begin("claim", queue, hold_s=HOLD_S)
        try:
            message, body = self._queue.receive(HOLD_S, timeout=0)
        except OSError:
            self._recorder.end(event, PERHAPS, messages=[])
            return []
        found = [] if message is None or body is None else [Delivery(tag_of(body.decode()), message, None, 0)]
        self._recorder.end(event, OK, messages=[[one.tag, one.id, None, 0] for one in found])
        return found

    def ack(self, queue: str, delivery: Delivery) -> Event:
        event = self._recorder.begin("ack", queue, messages=[[delivery.tag, delivery.id, None]])
        try:
            done = self._queue.delete(delivery.id)
        except OSError:
            return self._recorder.end(event, PERHAPS)
        return self._recorder.end(event, OK, done=[done])

    def close(self) -> None:
        self._queue.close()


class VsqsScript:
    """Two instances on one directory, which take turns."""

    def __init__(self, path: Path, recorder: Recorder, random: Random, sizes: Sequence[int] = SIZES) -> None:
        self._apis = [VsqsApi(path, recorder) for _ in range(2)]
        self._random = random
        self._sizes = sizes
        self._tags = Tags(recorder.client)
        self._held: list[Delivery] = []

    def step(self) -> str:
        api = self._random.choice(self._apis)
        verb = self._random.choices(["send", "claim", "ack"], [8, 5, 4])[0]
        if verb == "send":
            return str(api.send(api.QUEUE, self._tags(), self._random.choice(self._sizes))["outcome"])
        if verb == "ack" and self._held:
            delivery = self._held.pop(self._random.randrange(len(self._held)))
            return str(api.ack(api.QUEUE, delivery)["outcome"])
        self._held += api.claim(api.QUEUE)
        return OK

    def close(self) -> None:
        for api in self._apis:
            api.close()


class Plain:
    """Sends, claims and acks on one queue, one after another, where each outcome matters."""

    def __init__(self, api: Native | Mqcore | VsqsApi, queue: str, recorder: Recorder) -> None:
        self._api = api
        self._queue = queue
        self._recorder = recorder
        self._tags = Tags(recorder.client)

    def make(self) -> None:
        if isinstance(self._api, VsqsApi):
            return
        settings = MixedScript.QUEUES.get(self._queue, {})
        path = f"/v1/queues/{self._queue}" if isinstance(self._api, Native) else f"/{self._queue}"
        status = self._api.talk("PUT", path, settings).status
        assert status == 201, f"a queue could not be made: {status}"
        self._recorder.note("queue", self._queue, settings=settings)

    def send(self, size: int) -> str:
        return str(self._api.send(self._queue, self._tags(), size)["outcome"])

    def work(self, *, may_be_empty: bool = False) -> bool:
        """Claim a message and ack it: False if there was none."""
        found = self._claim()
        assert found or may_be_empty, "a message that is there could not be claimed"
        for delivery in found:
            outcome = self._ack(delivery)
            assert outcome == OK, f"{delivery} could not be acked: {outcome}"
        return bool(found)

    def try_to_work(self) -> None:
        for delivery in self._claim():
            self._ack(delivery)

    def _claim(self) -> list[Delivery]:
        if isinstance(self._api, VsqsApi):
            return self._api.claim(self._queue)
        return self._api.claim(self._queue, 1, HOLD_S, 0)

    def _ack(self, delivery: Delivery) -> str:
        if isinstance(self._api, VsqsApi):
            return str(self._api.ack(self._queue, delivery)["outcome"])
        if isinstance(self._api, Mqcore):
            return str(delete(self._api.talk, self._recorder, self._queue, delivery)["outcome"])
        return str(self._api.ack(self._queue, [delivery])["outcome"])


def run_vsqs(path: str, history: str, seed: str, steps: str) -> None:
    """As a program that may be killed: a call that fails is an outcome."""
    recorder = Recorder(Path(history), "c0", may_be_killed=True)
    script = VsqsScript(Path(path), recorder, Random(seed))
    for _ in range(int(steps)):
        script.step()
    script.close()


def look_by_vsqs(path: Path, recorder: Recorder) -> None:
    """A day later, when every claim has run out: all that is left is received, and nothing stays behind."""
    from penstock.vsqs import Queue

    left = []
    with Queue(path, precision="us", clock=lambda: time.time_ns() + _DAY_NS) as queue:
        queue.publish(body_of(f"{recorder.client}-1").encode())
        while (received := queue.receive(timeout=0))[0] is not None:
            left.append((tag_of(received[1].decode()), received[0]))
            assert queue.delete(received[0])
    recorder.note("left", VsqsApi.QUEUE, messages=[found for found in left if found[0] != f"{recorder.client}-1"])
    recorder.note("seen", queues=[VsqsApi.QUEUE])
    assert any(tag == f"{recorder.client}-1" for tag, _ in left), "a message sent after the fault was lost"
    assert not list(path.iterdir()), f"something is left behind: {sorted(path.iterdir())}"
