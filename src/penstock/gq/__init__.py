"""gq: producers and consumers on a SQL database, with no server between.

    push                 pop                       the callback returns
    ──────► queued ──────────────► consumed ──────────────────────────────► processed
              ▲                       │  │
              └───────────────────────┘  └──► failed: it raises after the deadline, or, at most once, the
                the callback raises,          deadline passes or the consumer is lost
                or, at least once, the
                consumer is lost

Every state is a row or a ledger row of the store that `penstock serve` uses as well: a message pushed here may be
received through any of its APIs, and the other way round.

    client.py     opens a store, makes the others, tells the status of a message
    producer.py   gathers messages and stores them in batches
    consumer.py   the loop around a callback
    membership.py what a consumer says to the store: outcomes, claim, heartbeat, leave
    heartbeat.py  the thread that does so while a callback runs
    access.py     the store, for many threads, and who waits for new messages
    signals.py    SIGTERM and SIGINT
    backoff.py    how long to wait for a database that is away
    timings.py    how often things are looked at, and how long is waited for them
    arguments.py  what callers may pass
"""

from __future__ import annotations

from penstock.gq.client import Client, Status
from penstock.gq.consumer import Consumer
from penstock.gq.producer import Producer

__all__ = ["Client", "Consumer", "Producer", "Status"]
