"""The options of the data source `penstock`, read and checked in one place.

Option names are matched without regard to case. The API key never shows, neither in a representation nor in an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TypeVar

from penstock import limits
from penstock.client import Client, ShipmentRef
from penstock.durations import duration_within
from penstock.spark.errors import InvalidOption
from penstock.spark.server import Server

FORMATS = ("binary", "text", "json")
AFTER_LOSS = ("fail", "continue")
NAMES = (
    "url", "queue", "queues", "consumer", "shipment", "format", "bodySchema", "apiKey", "limit", "partitions", "holdMs",
    "maxMessagesPerTrigger", "maxBytesPerTrigger", "minMessagesPerTrigger", "maxTriggerDelay", "maxMessagesPerSecond",
    "onLostShipment", "writer", "idempotencyKey", "patienceSeconds", "create",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in NAMES}
# What other sources call it. Left unread, such an option would promise what it does not do.
_FOREIGN = {
    "failondataloss": "onLostShipment",
    "maxoffsetspertrigger": "maxMessagesPerTrigger",
    "minoffsetspertrigger": "minMessagesPerTrigger",
    "subscribe": "queues",
    "subscribepattern": "queues",
}
# What Spark itself puts among a source's options.
_OF_SPARK = {"path", "paths", "checkpointlocation", "queryname", "outputmode", "__paths__", "mergeschema"}
_SIMILARITY = 0.75
_MOST_PER_SECOND = 1e9
_TRIGGER_DELAY_MS = 15 * 60 * 1000

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """`queue` is empty where `queues`, names and patterns, say what a stream reads."""

    url: str
    queue: str
    queues: tuple[str, ...] = ()
    consumer: str | None = None
    shipment: int | None = None
    format: str | None = None
    body_schema: str | None = None
    api_key: str | None = field(default=None, repr=False)
    limit: int | None = None
    partitions: int = 4
    hold_ms: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int | None = None
    max_delay_ms: int = _TRIGGER_DELAY_MS
    max_per_second: float | None = None
    after_loss: str = "fail"
    writer: str | None = None
    idempotency_key: str | None = None
    patience_s: float = 300.0
    create: bool = False
    checkpoint: str | None = None

    def client(self) -> Client:
        try:
            return Server(self.url, self.api_key, self.patience_s).client()
        except ValueError as error:
            raise InvalidOption(str(error)) from None

    def named_consumer(self) -> str:
        if self.consumer is None:
            raise InvalidOption("the option consumer is missing: a stream claims messages for a consumer")
        return self.consumer

    def check_batch(self) -> None:
        """Raises InvalidOption for what only a stream can do."""
        if self.queues:
            raise InvalidOption("the option queues is for streams that are read; this has one, in the option queue")
        if self.max_messages is not None:
            raise InvalidOption("the option maxMessagesPerTrigger is for streams; a batch read has limit")

    def check_stream(self) -> None:
        """Raises InvalidOption for what a stream cannot do."""
        self.named_consumer()
        if self.limit is not None:
            raise InvalidOption("the option limit is for batch reads; a stream has maxMessagesPerTrigger")
        if self.shipment is not None:
            raise InvalidOption("the option shipment is for batch reads; a stream goes from one to the next")
        if self.min_messages is not None and self.min_messages > (self.max_messages or limits.SHIPMENT_ROWS):
            raise InvalidOption("the option minMessagesPerTrigger is more than maxMessagesPerTrigger")

    def for_queue(self, queue: str) -> Options:
        """The same, for one of the queues."""
        return replace(self, queue=queue, queues=())

    def numbered(self, number: int) -> ShipmentRef:
        return ShipmentRef(self.queue, self.named_consumer(), number)


def read_options(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Options:
    """Raises InvalidOption."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_misspelled(options)
    if "shipment" in options and "consumer" not in options:
        raise InvalidOption("the option shipment needs the option consumer: each consumer counts its own")
    queues = _words(options, "queues")
    if queues and "queue" in options:
        raise InvalidOption("give the option queue or the option queues, not both")
    return Options(
        url=_required(options, "url"),
        queue="" if queues else _required(options, "queue"),
        queues=queues,
        consumer=options.get("consumer"),
        shipment=_number(options, "shipment", int, 1, 2**53, None),
        format=_choice(options, "format", FORMATS),
        body_schema=options.get("bodyschema"),
        api_key=options.get("apikey") or environ.get("PENSTOCK_API_KEY") or None,
        limit=_number(options, "limit", int, 1, limits.SHIPMENT_ROWS, None),
        partitions=_number(options, "partitions", int, 1, 10_000, 4),
        hold_ms=_number(options, "holdMs", int, 1_000, limits.DURATION_MS, None),
        max_messages=_number(options, "maxMessagesPerTrigger", int, 1, limits.SHIPMENT_ROWS, None),
        max_bytes=_number(options, "maxBytesPerTrigger", int, 1, limits.SHIPMENT_BYTES, None),
        min_messages=_number(options, "minMessagesPerTrigger", int, 1, limits.SHIPMENT_ROWS, None),
        max_delay_ms=_duration(options, "maxTriggerDelay", _TRIGGER_DELAY_MS),
        max_per_second=_number(options, "maxMessagesPerSecond", float, 0.001, _MOST_PER_SECOND, None),
        after_loss=_choice(options, "onLostShipment", AFTER_LOSS) or "fail",
        writer=options.get("writer"),
        idempotency_key=options.get("idempotencykey"),
        patience_s=_number(options, "patienceSeconds", float, 0.0, 1e9, 300.0),
        create=_flag(options, "create"),
        checkpoint=options.get("checkpointlocation"),
    )


def _refuse_misspelled(options: Mapping[str, str]) -> None:
    """Spark adds options of its own, so an unknown one is refused only if it looks like one of ours."""
    for name in options.keys() - _KNOWN.keys() - _OF_SPARK:
        if name in _FOREIGN:
            raise InvalidOption(f"there is no option {name!r}; {_FOREIGN[name]} is the one of this source")
        if "." in name:
            continue
        close = get_close_matches(name.replace("_", "").replace("-", ""), _KNOWN, 1, _SIMILARITY)
        if close:
            raise InvalidOption(f"there is no option {name!r}; did you mean {_KNOWN[close[0]]}?")


def _required(options: Mapping[str, str], name: str) -> str:
    value = options.get(name.lower())
    if not value:
        raise InvalidOption(f"the option {name} is missing")
    return value


def _words(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = options.get(name)
    if text is None:
        return ()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise InvalidOption(f"the option {name} has no names: write them as in orders-*,refunds")
    return words


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    text = options.get(name.lower())
    if text is not None and text.lower() not in choices:
        raise InvalidOption(f"the option {name} is one of {', '.join(choices)}, not {text!r}")
    return None if text is None else text.lower()


def _duration(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    try:
        return default if text is None else duration_within(text, 0, limits.DURATION_MS)
    except ValueError as error:
        raise InvalidOption(f"the option {name}: {error}") from None


def _number(
    options: Mapping[str, str], name: str, kind: Callable[[str], float], least: float, most: float, default: T
) -> T:
    text = options.get(name.lower())
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise InvalidOption(f"the option {name} is a number from {least:g} to {most:g}, not {text!r}")
    return value  # type: ignore[return-value]


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise InvalidOption(f"the option {name} is true or false, not {text!r}")
    return text == "true"
