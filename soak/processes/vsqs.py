"""A process that publishes to a directory and receives from it, as VSQS does."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from random import Random

from penstock.vsqs import Queue
from soak.history import OK, Recorder, body_of, tag_of
from soak.processes import told_to_stop

QUEUE = "vsqs"
HOLD_S = 1.0


def main(history: str, name: str, seed: str, directory: str, role: str = "mixed") -> None:
    stop = told_to_stop()
    recorder = Recorder(Path(history), name, may_be_killed=True)
    random = Random(seed)
    numbers = itertools.count(1)
    with Queue(directory, precision="us") as queue:
        print("ready", flush=True)
        while not stop.is_set():
            if role == "drain":
                if not queue.size():
                    break
                receive(queue, recorder, random, always_acks=True)
            elif random.random() < 0.5 and queue.size() < 500:
                tag = f"{name}-{next(numbers)}"
                event = recorder.begin("send", QUEUE, messages=[tag])
                recorder.end(event, OK, ids=[queue.publish(body_of(tag, random.choice((0, 100, 5_000))).encode())])
            else:
                receive(queue, recorder, random, always_acks=False)


def receive(queue: Queue, recorder: Recorder, random: Random, *, always_acks: bool) -> None:
    event = recorder.begin("claim", QUEUE, hold_s=HOLD_S)
    id, payload = queue.receive(visibility_timeout=HOLD_S, timeout=0.05 if always_acks else 0)
    if id is None or payload is None:
        recorder.end(event, OK, messages=[])
        return
    tag = tag_of(payload.decode(errors="replace"))
    recorder.end(event, OK, messages=[[tag, id, None, None]])
    if not always_acks and random.random() < 0.1:
        return  # it is forgotten
    event = recorder.begin("ack", QUEUE, messages=[[tag, id, None]])
    recorder.end(event, OK, done=[queue.delete(id)])


if __name__ == "__main__":
    main(*sys.argv[1:])
