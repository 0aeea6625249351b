"""A server as drivers and tasks reach it: over HTTP only, and for as long as it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.client import Client, Count, Patience, Tally
from penstock.client.client import Waiting
from penstock.spark import secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# An answer with a page of large messages may take a while.
_LONGEST_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Server:
    """It can be pickled. `patience_s` is how long a server that is away is waited for, and `waiting` is told when that
    begins, in the process where this was made."""

    url: str = "http://127.0.0.1:8080"
    api_key: str | None = field(default=None, repr=False)
    patience_s: float = 300.0
    waiting: Waiting | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Server], tuple[str, str | None, float]]:
        return Server, (self.url, self.api_key, self.patience_s)

    def __post_init__(self) -> None:
        secrets.hide(self.api_key)

    def client(self) -> Client:
        """Raises ValueError for an address or a key that cannot be one."""
        timeout_s = min(_LONGEST_TIMEOUT_S, max(self.patience_s, 1.0))
        client = Client(self.url, self.api_key, timeout_s, patience=Patience(self.patience_s))
        client.waiting = self.waiting
        return client

    def options(self) -> dict[str, str]:
        """As the data source has them."""
        options = {"url": self.url, "patienceSeconds": str(self.patience_s)}
        return options if self.api_key is None else {**options, "apiKey": self.api_key}

    def read(self, spark: SparkSession, queue: str, **options: object) -> DataFrame:
        """Every message of a queue, without claiming any; or one shipment, if the options name it."""
        given: dict[str, Any] = {**self.options(), "queue": queue, **options}
        return spark.read.format("penstock").options(**given).load()


def counted(client: Client, queue: str) -> tuple[Count, Tally]:
    """How many messages a queue holds, and has held."""
    told = client.queue(queue)
    assert told.count is not None and told.tally is not None  # noqa: S101, PT018  a queue asked for by name has both
    return told.count, told.tally
