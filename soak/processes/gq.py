"""A producer or a consumer of gq: a library on the servers' store, without a server in between."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from pathlib import Path
from random import Random

from penstock.errors import CallerError, TryAgain
from penstock.gq import Client
from soak.history import OK, PERHAPS, Recorder, body_of, now, tag_of
from soak.processes import told_to_stop

HEARTBEAT_S = 0.5
DEAD_AFTER_S = 2.0
# A callback this short lies within the time in which its consumer cannot have been declared dead: it had a sign of
# life from it less than half of `DEAD_AFTER_S` before it began.
_CERTAIN_S = DEAD_AFTER_S / 4


def produce(client: Client, recorder: Recorder, random: Random, queue: str, stop: threading.Event) -> None:
    with client.producer(queue) as producer:
        print("ready", flush=True)
        for number in itertools.count(1):
            if stop.is_set():
                return
            tag = f"{recorder.client}-{number}"
            event = recorder.begin("send", queue, messages=[tag], api="gq")
            try:
                recorder.end(event, OK, ids=[producer.push(body_of(tag, random.choice((0, 100, 1_000))))])
            except TryAgain:
                recorder.end(event, PERHAPS)
            stop.wait(random.uniform(0, 0.02))


def consume(client: Client, recorder: Recorder, random: Random, queue: str, stop: threading.Event) -> None:
    """What a callback has finished is in the store some time later; certainly when the consumer has ended well."""
    begun = now()
    finished: dict[str, tuple[str, float]] = {}
    lost: set[str] = set()
    consumer = client.consumer(queue, batch=10, heartbeat_s=HEARTBEAT_S, dead_after_s=DEAD_AFTER_S, on_lost=lost.add)

    def work(payload: bytes) -> None:
        started = now()
        message = consumer.current
        assert message is not None
        tag = tag_of(payload.decode(errors="replace"))
        if random.random() < 0.1:
            stop.wait(random.uniform(0, 0.1))
        ended = now()
        until = ended if ended - started < _CERTAIN_S and "uncertain" not in sys.argv else 0.0
        recorder.write(
            {
                "op": "claim", "queue": queue, "api": "gq", "begin": begun, "end": started, "until": until,
                "messages": [[tag, message.id, None, message.receives]],
            }
        )  # fmt: skip
        raises = random.random() < 0.03
        recorder.write(
            {
                "op": "release" if raises else "ack", "queue": queue, "api": "gq", "begin": ended, "end": None,
                "outcome": PERHAPS, "messages": [[tag, message.id, None]],
            }
        )  # fmt: skip
        if raises:
            raise ValueError("a callback that fails")
        finished[message.id] = tag, ended

    thread = threading.Thread(target=consumer.process, args=(work,))
    thread.start()
    print("ready", flush=True)
    stop.wait()
    consumer.stop()
    thread.join()
    for id in finished.keys() - lost:
        tag, ended = finished[id]
        recorder.write(
            {
                "op": "ack", "queue": queue, "api": "gq", "begin": ended, "end": now(), "done": [True],
                "messages": [[tag, id, None]],
            }
        )  # fmt: skip


def main(history: str, name: str, seed: str, role: str, store: str, queue: str, *_: str) -> None:
    stop = told_to_stop()
    logging.getLogger("penstock.gq").setLevel(logging.CRITICAL)  # callbacks fail on purpose
    recorder = Recorder(Path(history), name, may_be_killed=True)
    try:
        client = Client(store)
    except (TryAgain, CallerError) as error:
        # A store that is being copied refuses: nothing was asked.
        print(f"refused: {error}", flush=True)
        return
    with client:
        {"producer": produce, "consumer": consume}[role](client, recorder, Random(seed), queue, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
