"""The shop's workers: they claim, they take their time, they fail now and then, and they send on what comes next.

Whether one fails depends on the seed, the message and the delivery alone, and never on the clock: a day can be
repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from penstock.client import ClaimedMessage, Client, Draft, Redrive

ORDERS, PAYMENTS, EMAILS, EVENTS = "orders", "payments", "emails", "events"
DEAD_LETTERS = {queue: f"{queue}-dead" for queue in (ORDERS, PAYMENTS, EMAILS)}
_MOST_RECEIVES = 3
_BATCH = 40
_HOLD_MS = 600_000
# How often a worker fails though nothing is wrong with the message, and how long a batch takes it: on average, in
# seconds.
_FAILS = {ORDERS: 0.04, PAYMENTS: 0.09, EMAILS: 0.02}
_TAKES_S = {ORDERS: 0.012, PAYMENTS: 0.02, EMAILS: 0.004}
# One payment in so many is to be collected later. It stays in the queue, as something always does at the end of a day.
_LATER = 150
_LATER_MS = 86_400_000
_JSON = "application/json"


def create_queues(client: Client) -> None:
    for dead_letters in DEAD_LETTERS.values():
        client.create_queue(dead_letters, ledger="bodies")
    # An order that was sent twice is worked on once; an e-mail that waits already is not taken a second time.
    client.create_queue(ORDERS, ledger="bodies", dedup="claim", redrive=_redrive(ORDERS))
    client.create_queue(PAYMENTS, ledger="bodies", redrive=_redrive(PAYMENTS))
    client.create_queue(EMAILS, dedup="send", redrive=_redrive(EMAILS))
    client.create_queue(EVENTS)


def _redrive(queue: str) -> Redrive:
    return {"max_receives": _MOST_RECEIVES, "dead_letter_queue": DEAD_LETTERS[queue]}


@dataclass
class Work:
    """What the workers have done so far."""

    acked: int = 0
    failed: int = 0
    # E-mails that were not stored because an equal one was waiting.
    twins: int = 0


@dataclass
class Workers:
    client: Client
    seed: int
    nap: Callable[[float], None] = time.sleep
    done: Work = field(default_factory=Work)

    def work(self) -> None:
        """Until nothing is ready. The queues take turns, and each has another pace."""
        pace = Random(f"{self.seed}/pace")  # noqa: S311
        busy = True
        while busy:
            busy = False
            for queue in (ORDERS, PAYMENTS, EMAILS):
                claimed = self.client.claim(queue, _BATCH, _HOLD_MS)
                if claimed:
                    busy = True
                    self._handle(queue, claimed, pace)

    def _handle(self, queue: str, claimed: list[ClaimedMessage], pace: Random) -> None:
        self.nap(pace.expovariate(1 / _TAKES_S[queue]))
        good, bad, following = [], [], []
        for message in claimed:
            order = _read(message)
            if order is None or self._fails(queue, message):
                bad.append(message)
            else:
                good.append(message)
                following.append((message, order))
        self._send_on(queue, following)
        if good:
            self.client.ack(queue, good)
        if bad:
            self.client.release(queue, bad)
        self.done.acked += len(good)
        self.done.failed += len(bad)

    def _fails(self, queue: str, message: ClaimedMessage) -> bool:
        chance = Random(f"{self.seed}/{queue}/{message.text}/{message.receives}")  # noqa: S311
        return chance.random() < _FAILS[queue]

    def _send_on(self, queue: str, handled: list[tuple[ClaimedMessage, Mapping[str, object]]]) -> None:
        """An order becomes a payment, a payment an e-mail to the customer, and both an event to be counted."""
        if queue == ORDERS:
            self._send(PAYMENTS, [self._payment(order) for _, order in handled])
        elif queue == PAYMENTS:
            # The payment's worker says it twice, to be sure. The queue keeps one.
            emails = [_draft({"to": order["customer"], "paid": order["order"]}) for _, order in handled]
            self._send(EMAILS, [email for one in emails for email in (one, one)])
        if queue in (ORDERS, PAYMENTS):
            what = "accepted" if queue == ORDERS else "paid"
            self._send(EVENTS, [_draft({"order": order["order"], "event": what}) for _, order in handled])

    def _payment(self, order: Mapping[str, object]) -> Draft:
        chance = Random(f"{self.seed}/later/{order['order']}")  # noqa: S311
        later = chance.randrange(_LATER) == 0
        wanted = {"order": order["order"], "customer": order["customer"], "country": order["country"]}
        return _draft(wanted, _LATER_MS if later else None)

    def _send(self, queue: str, drafts: list[Draft]) -> None:
        sent = self.client.send_many(queue, drafts)
        self.done.twins += sum(not one.stored for one in sent)


def _draft(value: object, delay_ms: int | None = None) -> Draft:
    return Draft(json.dumps(value), _JSON, None, delay_ms)


def _read(message: ClaimedMessage) -> Mapping[str, object] | None:
    """None for what no worker can handle, however often it comes: not JSON, or an order to nowhere."""
    try:
        value = json.loads(message.text)
    except ValueError:
        return None
    return None if value.get("country") == "Atlantis" else value
