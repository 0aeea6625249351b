"""Spark's side of Penstock: the data source `penstock`, and the jobs of the pipeline.

    import penstock.spark

    orders = spark.read.format("penstock").option("url", "http://127.0.0.1:8080").option("queue", "orders").load()

Importing it registers the source with the session that is active; `register` does so for a later one. Nothing here
opens a store: a server is reached over HTTP only.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from penstock.client import ShipmentRef
from penstock.spark import secrets
from penstock.spark.progress import Backlog, backlog
from penstock.spark.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.client import Client, Shipment

__all__ = ["Backlog", "backlog", "open_session", "register", "release", "settle", "start_stream"]


def register(spark: SparkSession) -> None:
    """Make the format `penstock` known to a session."""
    from penstock.spark.source import register

    register(spark)


def open_session(
    app_name: str = "penstock",
    master: str | None = None,
    remote: str | None = None,
    settings: dict[str, str] | None = None,
    log: str | None = None,
) -> SparkSession:
    """A quiet session that knows the format `penstock`, on a Java that is found for it."""
    from penstock.spark.session import open_session

    return open_session(app_name, master, remote, settings, log)


def start_stream(writer: DataStreamWriter, tries: int = 3) -> StreamingQuery:
    """As `writer.start()`, and again where a very busy machine is slower to start a stream than Spark allows."""
    from penstock.spark.slow_start import start_stream

    return start_stream(writer, tries)


def settle(url: str, queue: str, consumer: str, number: int, api_key: str | None = None) -> Shipment:
    """The messages of this shipment are stored elsewhere: finish them. Doing it again changes nothing."""
    with _client(url, api_key) as client:
        return client.settle_shipment(ShipmentRef(queue, consumer, number))


def release(url: str, queue: str, consumer: str, number: int, api_key: str | None = None) -> Shipment:
    """Give the messages of this shipment back: they are ready again, for any consumer."""
    with _client(url, api_key) as client:
        return client.release_shipment(ShipmentRef(queue, consumer, number))


def _client(url: str, api_key: str | None) -> Client:
    return Server(url, api_key or os.environ.get("PENSTOCK_API_KEY")).client()


def _register_with_active() -> None:
    """A session can only be active if PySpark is loaded."""
    for name in ("pyspark.sql.session", "pyspark.sql.connect.session"):
        module = sys.modules.get(name)
        session = module.SparkSession.getActiveSession() if module is not None else None
        if session is not None:
            register(session)
            return


secrets.install()
_register_with_active()
