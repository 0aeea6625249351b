"""Figures of queues through the client."""

from __future__ import annotations

from email.message import Message

import pytest

from penstock import __version__
from penstock.client import InvalidRequest, QueueNotFound, RegisteredConsumer, Shipment, ShipmentRef
from penstock.client.address import Answer
from penstock.client.verbs import _workers
from penstock.compiled import is_compiled


def test_an_overview_by_the_page(server, connect):
    with connect(server.url) as client:
        client.create_queue("Mail")
        client.create_queue("jobs")
        client.send_many("jobs", ["a", "b"])
        [claimed] = client.claim("jobs")
        client.ack("jobs", claimed)
        client.pause_queue("Mail")
        overview = client.overview()
        assert (overview.total, overview.sums.ready, overview.sums.paused) == (2, 1, 1)
        jobs, mail = overview.rows
        assert (jobs.name, jobs.ready, jobs.totals.sent, jobs.totals.acked) == ("jobs", 1, 2, 1)
        assert (jobs.paused_at, jobs.sent_by_minute) == (None, [])
        assert mail.paused_at is not None
        assert mail.oldest_ready_ms is None
        [row] = client.overview("name", "descending", limit=1, offset=1, sparks=True).rows
        assert (row.name, len(row.sent_by_minute)) == ("Mail", 60)
        assert [row.name for row in client.overview(contains="MA").rows] == ["Mail"]
        assert client.overview(dead_letter_queues=True).rows == []
        with pytest.raises(InvalidRequest, match="sort must be one of name"):
            client.overview("colour")


def test_the_history_of_a_queue(server, connect):
    with connect(server.url) as client:
        client.create_queue("jobs")
        client.send("jobs", "a")
        history = client.history("jobs")
        # Between the two calls a minute may have ended.
        assert (sum(history.sent[-2:]), len(history.sent), len(history.since)) == (1, 60, 60)
        assert (client.history("jobs", "day").span, len(client.history("jobs", "day").ready)) == ("day", 144)
        with pytest.raises(QueueNotFound):
            client.history("none")


def test_who_works_on_a_queue(server, connect):
    with connect(server.url) as client:
        client.create_queue("jobs")
        client.send("jobs", "a")
        shipment = client.claim_shipment(ShipmentRef("jobs", "lake", 1), limit=1)
        workers = client.workers_of("jobs")
        assert (workers.waiting_claims, workers.consumers, workers.shipments) == (0, [], [shipment])
        assert isinstance(workers.shipments[0], Shipment)
        with pytest.raises(QueueNotFound):
            client.workers_of("none")


def test_a_consumer_of_gq_is_read():
    told = b"""{"waiting_claims": 1, "shipments": [], "consumers": [
        {"id": "c", "delivery": "at_most_once", "beat_at": 5, "dead_after_ms": 6, "held": 7, "newer": 8}]}"""
    [consumer] = _workers(Answer(200, told, Message())).consumers
    assert consumer == RegisteredConsumer("c", "at_most_once", 5, 6, 7)


def test_the_kind_of_server(server, connect):
    with connect(server.url) as client:
        facts = client.server()
        assert (facts.version, facts.store, facts.compiled) == (__version__, "sqlite", is_compiled())
        assert facts.began_at > 0
