"""The options of the data source `penstock`, read and checked in one place.

Option names are matched without regard to case. The API key never shows, neither in a representation nor in an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeVar

from penstock import limits
from penstock.client import Client, ShipmentRef
from penstock.spark.errors import InvalidOption
from penstock.spark.server import Server

FORMATS = ("binary", "text", "json")
NAMES = (
    "url", "queue", "consumer", "shipment", "format", "bodySchema", "apiKey", "limit", "partitions", "holdMs", "writer",
    "idempotencyKey", "patienceSeconds", "create",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in NAMES}
# What Spark itself puts among a source's options.
_OF_SPARK = {"path", "paths", "checkpointlocation", "queryname", "outputmode", "__paths__", "mergeschema"}
_SIMILARITY = 0.75

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    url: str
    queue: str
    consumer: str | None = None
    shipment: int | None = None
    format: str | None = None
    body_schema: str | None = None
    api_key: str | None = field(default=None, repr=False)
    limit: int = 100_000
    partitions: int = 4
    hold_ms: int | None = None
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

    def numbered(self, number: int) -> ShipmentRef:
        return ShipmentRef(self.queue, self.named_consumer(), number)


def read_options(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Options:
    """Raises InvalidOption."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_misspelled(options)
    format = options.get("format")  # noqa: A001
    if format is not None and format.lower() not in FORMATS:
        raise InvalidOption(f"the option format is one of {', '.join(FORMATS)}, not {format!r}")
    if "shipment" in options and "consumer" not in options:
        raise InvalidOption("the option shipment needs the option consumer: each consumer counts its own")
    return Options(
        url=_required(options, "url"),
        queue=_required(options, "queue"),
        consumer=options.get("consumer"),
        shipment=_number(options, "shipment", int, 1, 2**53, None),
        format=None if format is None else format.lower(),
        body_schema=options.get("bodyschema"),
        api_key=options.get("apikey") or environ.get("PENSTOCK_API_KEY") or None,
        limit=_number(options, "limit", int, 1, limits.SHIPMENT_ROWS, 100_000),
        partitions=_number(options, "partitions", int, 1, 10_000, 4),
        hold_ms=_number(options, "holdMs", int, 1_000, limits.DURATION_MS, None),
        writer=options.get("writer"),
        idempotency_key=options.get("idempotencykey"),
        patience_s=_number(options, "patienceSeconds", float, 0.0, 1e9, 300.0),
        create=_flag(options, "create"),
        checkpoint=options.get("checkpointlocation"),
    )


def _refuse_misspelled(options: Mapping[str, str]) -> None:
    """Spark adds options of its own, so an unknown one is refused only if it looks like one of ours."""
    for name in options.keys() - _KNOWN.keys() - _OF_SPARK:
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
