"""One queue of a stream: its shipments for one consumer, one after the other, each claimed, read and settled.

A bookmark is where the stream stands in the queue: the number of its last shipment, and when that was claimed. Both are
needed to know a shipment again, because a queue that was created again counts from 1, and so does one whose store was
restored from a backup.

What cannot be read or settled as it should be is lost: then a stream fails, or warns and goes on, as its options say.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock.client import Client, QueueNotFound, Shipment, ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.spark.errors import ShipmentGone
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.options import Options
from penstock.spark.reader import gone

_GIVEN_BACK = ("released", "lost")
_START_OVER = "start the query with a new consumer and a new checkpoint"
CHOICE = (
    "to go on with the next shipment, start the query with the option onLostShipment=continue, by which messages may "
    f"be missing or come twice; otherwise {_START_OVER}"
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bookmark:
    """It becomes JSON text, and Spark compares that: the keys are in this order always."""

    claimed_at: int
    shipment: int

    @classmethod
    def of(cls, shipment: Shipment) -> Bookmark:
        return cls(shipment.claimed_at, shipment.number)

    def told(self) -> dict[str, int]:
        return {"claimed_at": self.claimed_at, "shipment": self.shipment}


class Feed:
    def __init__(self, client: Client, options: Options, hold_ms: int) -> None:
        """`options` are those for this queue."""
        self._client = client
        self._options = options
        self._queue = options.queue
        self._hold_ms = hold_ms
        self._settled: Bookmark | None = None
        self._given_up: Bookmark | None = None
        self._heartbeat: Heartbeat | None = None
        self._held: Shipment | None = None
        self.is_missing = False

    @property
    def held(self) -> int:
        """The messages of the shipment that this process has claimed and not yet settled."""
        return 0 if self._held is None else self._held.messages

    def is_open(self) -> bool:
        """Whether a run before this one has claimed a shipment and not settled it."""
        try:
            self._client.shipment(self._client.next_shipment(self._queue, self._options.named_consumer()))
        except (ShipmentNotFound, QueueNotFound):
            return False
        return True

    def claim(self, after: Bookmark | None, limit: int, max_bytes: int | None = None) -> Shipment | None:
        """The shipment behind this bookmark; None when nothing is ready."""
        try:
            number = self._following(after)
            while True:
                try:
                    ref = self._options.numbered(number)
                    claimed = self._client.claim_shipment(ref, limit, self._hold_ms, max_bytes)
                except ShipmentEnded as error:
                    if error.how not in _GIVEN_BACK:
                        raise ShipmentGone(self._taken(number), error.how) from None
                    # Claimed by a run that ended before Spark noted it: its messages come with a later number.
                    number += 1
                except ShipmentConflict as error:
                    if error.expected is None or error.expected > number:
                        error.args = (self._taken(number, f" ({error})"),)
                        raise
                    self._lose(self._unknown(number - 1), "unknown")
                    number = error.expected
                else:
                    break
        except QueueNotFound as error:
            self.miss(error)
            return None
        self.is_missing = False
        if claimed is not None:
            self._hold(claimed)
        return claimed

    def find(self, bookmark: Bookmark) -> Shipment | None:
        """The shipment at this bookmark, to be read; None for one that is lost.

        After a restart a batch comes from the checkpoint, and no claim has come before it."""
        known = self._known(bookmark)
        if known is None:
            self._give_up(bookmark, self._unknown(bookmark.shipment), "unknown")
            return None
        if known.state in _GIVEN_BACK:
            self._give_up(bookmark, str(gone(known.ref, known.state)), known.state)
            return None
        if known.state == "open":
            self._hold(known)
        return known

    def settle(self, bookmark: Bookmark) -> None:
        """Kept readable until the next one is settled: a batch that Spark replays finds its messages."""
        if bookmark in (self._settled, self._given_up):
            return
        is_held = self._held is not None and bookmark == Bookmark.of(self._held)
        self._let_go()
        self._settle(bookmark, is_known=is_held)
        self._settled = bookmark

    def miss(self, error: QueueNotFound) -> None:
        """The queue is not there."""
        if self._options.after_loss == "fail":
            error.args = (f"{error}; {CHOICE}",)
            raise error
        if not self.is_missing:
            logger.warning("penstock: %s; the stream goes on when there is one", error)
        self.is_missing = True

    def stop(self) -> None:
        self._let_go()

    def _settle(self, bookmark: Bookmark, is_known: bool) -> None:
        number = bookmark.shipment
        if not is_known and self._known(bookmark) is None:
            if not self._is_past(bookmark):
                self._give_up(bookmark, self._unknown(number), "unknown")
            return
        try:
            self._client.settle_shipment(self._options.numbered(number), keep=True)
        except ShipmentEnded as error:
            message = (
                f"shipment {number} of {self._queue!r} was processed, but {error.how} before it could be settled, so "
                "its messages are in the queue once more and come a second time"
            )
            self._give_up(bookmark, message, error.how)
        except (ShipmentNotFound, QueueNotFound):
            self._give_up(bookmark, self._unknown(number), "unknown")

    def _known(self, bookmark: Bookmark) -> Shipment | None:
        """The shipment of this bookmark, if the server knows it."""
        try:
            found = self._client.shipment(self._options.numbered(bookmark.shipment))
        except (ShipmentNotFound, QueueNotFound):
            return None
        return found if found.claimed_at == bookmark.claimed_at else None

    def _is_past(self, bookmark: Bookmark) -> bool:
        """Whether it ended so long ago that it is forgotten, as one is when others have come after it."""
        try:
            following = self._client.next_shipment(self._queue, self._options.named_consumer())
        except QueueNotFound:
            return False
        return following.number > bookmark.shipment + 1

    def _following(self, after: Bookmark | None) -> int:
        """A query that has read nothing yet begins where its consumer is, and so does one that has lost its place."""
        if after is not None and after != self._given_up:
            return after.shipment + 1
        return self._client.next_shipment(self._queue, self._options.named_consumer()).number

    def _hold(self, shipment: Shipment) -> None:
        self._let_go()
        self._held = shipment
        self._heartbeat = Heartbeat(self._client, shipment, self._hold_ms)
        self._heartbeat.start()

    def _let_go(self) -> None:
        self._held = None
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    # What is lost

    def _give_up(self, bookmark: Bookmark, message: str, how: str) -> None:
        if bookmark != self._given_up:
            self._lose(message, how)
            self._given_up = bookmark

    def _lose(self, message: str, how: str) -> None:
        if self._options.after_loss == "fail":
            raise ShipmentGone(f"{message}; {CHOICE}", how)
        logger.warning("penstock: %s; the stream goes on with the next shipment", message)

    def _unknown(self, number: int) -> str:
        return (
            f"the server does not know shipment {number} of {self._options.consumer!r} from {self._queue!r}, which the "
            "checkpoint names: the queue was deleted, and maybe created again, or its store restored from a backup"
        )

    def _taken(self, number: int, why: str = "") -> str:
        return (
            f"shipment {number} of {self._queue!r} is not this query's to read{why}: another query uses the consumer "
            f"{self._options.consumer!r}, or the checkpoint is an old one; {_START_OVER}"
        )
