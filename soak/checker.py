"""The one checker of the campaign: judges a history by what clients saw, and by nothing else.

It reads the history twice: once for queues, clocks and moves, and once for messages. These go into buckets, by their
producer and by their id, so that however long a history is only a part of it is in memory. Nothing here imports the
server's code, and nothing may.
"""

from __future__ import annotations

import json
import marshal
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from soak.history import OK, PERHAPS, Event, History, producer_of
from soak.messages import Claimed, Left, Message, Place, Sent, Touched, World, observations
from soak.rules import FAULT, Finding, Id, Row, is_gone, of_id, of_message, of_producer, of_queue

# One bucket is in memory at a time.
BUCKET_BYTES = 64 * 1024 * 1024
# Of each rule: a broken store breaks a promise for every message.
MOST_FINDINGS = 10

_KINDS: tuple[Any, ...] = (Sent, Claimed, Touched, Left, Row)


@dataclass
class Verdict:
    findings: list[str] = field(default_factory=list)
    # How often each rule was broken, also where it is not told each time.
    broken: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        return self.figures["sent"]

    @property
    def acked(self) -> int:
        return self.figures["acked"]


def check(history: History) -> Verdict:
    return Checker(history).judge()


class Checker:
    def __init__(self, history: History, bucket_bytes: int = BUCKET_BYTES) -> None:
        self._history = history
        self._buckets = history.size() // bucket_bytes + 1
        self._world = World()
        self._findings: list[Finding] = []
        self._broken: Counter[str] = Counter()
        self._figures: Counter[str] = Counter()
        # When a claim was first asked for that has a name: one without an answer is asked for again, and is the same.
        self._tries: dict[tuple[str, str], float] = {}

    def judge(self) -> Verdict:
        for event in self._history.events(without=("send", "claim", "ack", "renew", "release", "left", "ledger")):
            self._world.learn(event)
        with Buckets(self._buckets) as by_producer, Buckets(self._buckets) as by_id:
            for event in self._history.events():
                self._sort(event, by_producer, by_id)
            for bucket in by_producer:
                self._judge_messages(bucket)
            for bucket in by_id:
                self._judge_ids(bucket)
        for queue in self._world.queues.values():
            self._add(of_queue(queue, self._world))
        return Verdict(self._tell(), self._broken, self._figures)

    def _sort(self, event: Event, by_producer: Buckets, by_id: Buckets) -> None:
        tried = None
        if event["op"] == "claim" and event.get("name") is not None:
            tried = self._tries.setdefault((event["client"], event["name"]), event["begin"])
        if event.get("status") == 500:
            self._add([Finding(FAULT, f"{event['op']} in {event['queue']} was answered 500", (_place(event),))])
        for tag, seen in observations(event, self._world, tried):
            by_producer.add(producer_of(tag), tag, seen)
            if seen.id is not None:
                by_id.add(seen.id, tag, seen)
        if event["op"] == "ledger":
            for number, queue, id, outcome, receives in event["rows"]:
                self._world.queue(queue).figures["rows"] += 1
                by_id.add(id, "", Row(_place(event), number, queue, outcome, receives))

    def _judge_messages(self, bucket: Iterator[tuple[str, Any, str]]) -> None:
        producers: dict[str, dict[str, Message]] = {}
        for tag, seen, _ in bucket:
            messages = producers.setdefault(producer_of(tag), {})
            if tag not in messages:
                messages[tag] = Message(tag)
            messages[tag].add(seen)
        for messages in producers.values():
            for message in messages.values():
                self._add(of_message(message, self._world))
                self._count(message)
            ours = [message for message in messages.values() if message.sends]
            self._add(of_producer(ours, self._world))

    def _count(self, message: Message) -> None:
        """For the tallies: how many messages have arrived in which queue, and how many have left it."""
        sent = {(send.key, send.queue) if send.key else send.at: send for send in _certain_last(message.sends)}
        for send in sent.values():
            figures = self._world.queue(send.queue).figures
            drops_twins = self._world.queue(send.queue).dedup in ("send", "window")
            if send.outcome == OK and (send.stored or (send.stored is None and not drops_twins)):
                figures["sent"] += 1
                self._figures["sent"] += 1
            elif send.outcome == PERHAPS or (send.outcome == OK and send.stored is None):
                figures["perhaps sent"] += 1
        shipped = message.times_shipped()
        gone = {(ack.queue, ack.id) for ack in message.acks if is_gone(ack, self._world, shipped)}
        for queue, _ in gone:
            self._world.queue(queue).figures["acked"] += 1
        self._figures["acked"] += any(ack.is_certain for ack in message.acks)
        self._figures["received"] += bool(message.claims)
        self._figures["received again"] += len({claim.at for claim in message.claims}) > 1
        for left in message.left:
            self._world.queue(left.queue).figures["left"] += 1

    def _judge_ids(self, bucket: Iterator[tuple[str, Any, str]]) -> None:
        ids: dict[str, Id] = {}
        for tag, seen, key in bucket:
            if key not in ids:
                ids[key] = Id(key)
            known = ids[key]
            if isinstance(seen, Row):
                known.rows.append(seen)
                continue
            if not isinstance(seen, Sent) or seen.stored is not False:
                known.tags.setdefault(tag, seen.at)
            if isinstance(seen, Touched):
                known.touches.append(seen)
            elif isinstance(seen, Left):
                known.left.append((seen.at, seen.queue))
            elif isinstance(seen, Claimed):
                name = seen.name or seen.receipt or f"{seen.at}"
                known.claims.setdefault(seen.queue, set()).add(name)
                if seen.is_shipment:
                    known.shipments.append(seen)
        for known in ids.values():
            self._add(of_id(known, self._world))

    def _add(self, findings: Any) -> None:
        for finding in findings:
            self._broken[finding.rule] += 1
            if self._broken[finding.rule] <= MOST_FINDINGS:
                self._findings.append(finding)

    def _tell(self) -> list[str]:
        """Each finding with the events that prove it."""
        wanted = {place for finding in self._findings for place in finding.places}
        proof: dict[Place, Event] = {}
        if wanted:
            proof = {_place(event): event for event in self._history.events() if _place(event) in wanted}
        told = []
        for finding in self._findings:
            lines = [f"{finding.rule}: {finding.words}"]
            lines += [f"    {_shorten(proof[place])}" for place in finding.places if place in proof]
            told.append("\n".join(lines))
        told += [
            f"{rule}: {count - MOST_FINDINGS} more times"
            for rule, count in self._broken.items()
            if count > MOST_FINDINGS
        ]
        return told


def _certain_last(sends: list[Sent]) -> list[Sent]:
    """So that of a send that was repeated with its key, one that was answered counts."""
    return sorted(sends, key=lambda send: send.outcome == OK)


def _place(event: Event) -> Place:
    return event["client"], event["n"]


def _shorten(event: Event) -> str:
    text = json.dumps(event)
    return text if len(text) < 1_000 else f"{text[:1_000]}…"


class Buckets:
    """Observations, sorted by what they are about into files, of which one is read at a time. A single bucket stays in
    memory."""

    def __init__(self, count: int) -> None:
        self._files: list[IO[bytes]] = []
        self._kept: list[tuple[str, Any, str]] = []
        if count > 1:
            self._files = [tempfile.TemporaryFile() for _ in range(count)]  # noqa: SIM115 – closed by `__exit__`

    def add(self, key: str, tag: str, seen: Any) -> None:
        if self._files:
            file = self._files[zlib.crc32(key.encode()) % len(self._files)]
            marshal.dump((_KINDS.index(type(seen)), tag, tuple(seen), key), file)
        else:
            self._kept.append((tag, seen, key))

    def __iter__(self) -> Iterator[Iterator[tuple[str, Any, str]]]:
        if not self._files:
            yield iter(self._kept)
        for file in self._files:
            yield self._read(file)

    @staticmethod
    def _read(file: IO[bytes]) -> Iterator[tuple[str, Any, str]]:
        file.seek(0)
        while True:
            try:
                kind, tag, fields, key = marshal.load(file)
            except EOFError:
                return
            yield tag, _KINDS[kind](*fields), key

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()
