"""Requests of every API that need the store, and what they are told while it cannot be used."""

from __future__ import annotations

from tests.talk import Reply, Talk

REQUESTS = [
    ("POST", "/v1/queues/q/messages", {"messages": [{"body": "x"}]}),
    ("POST", "/v1/queues/q/claim", {"wait_ms": 60_000}),
    ("GET", "/v1/queues", None),
    ("POST", "/messages/q", b"x"),
    ("GET", "/messages/q", None),
    ("DELETE", "/messages/0199a8c2-51f4-7abc-9def-00000000002a", None),
    ("POST", "/queue/1/q/send", "1"),
    ("GET", "/dedupq/1/q/poll", None),
    ("POST", "/queue/1/_move?from=a&to=b", None),
]


def ask(talk: Talk, method: str, path: str, body: bytes | str | dict | None) -> Reply:
    headers = {"content_type": "application/json"} if isinstance(body, str) else {}
    return talk(method, path, body, **headers)


def check_refusals(talk: Talk) -> None:
    """All are told to come again, and the server says that it is not well."""
    for method, path, body in REQUESTS:
        # A claim that asks to wait is not let in either: the client's own patience ends before its wait does.
        reply = ask(talk, method, path, body)
        assert (reply.status, int(reply.headers["Retry-After"]) > 0) == (503, True), (method, path, reply.body)
    health = talk("GET", "/health")
    assert (health.status, health.body) == (200, b"red")
    assert talk("GET", "/health/ready").status == 503
    metrics = talk("GET", "/metrics")
    assert (metrics.status, b"penstock_store_up 0\n" in metrics.body) == (200, True)
