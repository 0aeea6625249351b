"""What is really there: counted with plain HTTP and plain Parquet, by nothing of the code that is being tested."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.talk import Talk

# How often each message, by its id and body, is there.
Messages = Counter[tuple[str, bytes]]


def create(url: str, queue: str = "q") -> None:
    with Talk(url) as talk:
        assert talk("PUT", f"/v1/queues/{queue}", {}).status in (200, 201)


def send(url: str, count: int, queue: str = "q") -> Messages:
    """New messages, told apart by their bodies; returns all that the queue then holds."""
    with Talk(url) as talk:
        for start in range(0, count, 10_000):
            lines = [json.dumps({"body": f"message {n}"}) for n in range(start, min(start + 10_000, count))]
            path = f"/v1/queues/{queue}/messages"
            assert talk("POST", path, "\n".join(lines), content_type="application/x-ndjson").status == 201
    held = in_queue(url, queue)
    assert held.total() == len(held) == count
    return held


def in_queue(url: str, queue: str = "q") -> Messages:
    found: Messages = Counter()
    after = ""
    with Talk(url) as talk:
        while True:
            page: Any = talk("GET", f"/v1/queues/{queue}/messages?limit=10000{after}").json
            for message in page["messages"]:
                body = message["body"].encode() if "body" in message else base64.b64decode(message["body_base64"])
                found[message["id"], body] += 1
            if not page["messages"] or page["after"] is None:
                return found
            after = f"&after={page['after']}"


def bodies(messages: Messages) -> Counter[bytes]:
    counted: Counter[bytes] = Counter()
    for (_, body), times in messages.items():
        counted[body] += times
    return counted


def in_lake(lake: Path) -> Messages:
    """Every row that a reader of Parquet sees: of all files but those that are hidden by an underscore or a dot."""
    import pyarrow.parquet as pq

    found: Messages = Counter()
    for file in sorted((lake / "messages").rglob("*.parquet")):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(lake).parts):
            rows = pq.ParquetFile(file).read(["id", "body"])
            found.update(zip(rows["id"].to_pylist(), rows["body"].to_pylist(), strict=True))
    return found


def counters(url: str, queue: str = "q") -> tuple[int, int, int]:
    """How many messages have arrived, departed, and are there."""
    with Talk(url) as talk:
        told: Any = talk("GET", f"/v1/queues/{queue}").json
    return told["tally"]["arrived"], told["tally"]["departed"], told["count"]["total"]


def check_drained(spark: Any, url: str, sent: Messages, lake: Path) -> None:
    """All of it in the lake, each message once, none left; and the audit agrees."""
    landed = in_lake(lake)
    assert sent - landed == Counter(), "missing"
    assert landed - sent == Counter(), "twice, or never sent"
    assert counters(url) == (sent.total(), sent.total(), 0)
    check_audit(spark, url, lake)


def check_audit(spark: Any, url: str, lake: Path | None = None) -> None:
    from penstock.spark.jobs import Run, Server, audit

    summary = audit(Server(url), None if lake is None else str(lake), run=Run(spark))
    assert summary.findings == []
    assert lake is None or summary.messages == in_lake(lake).total()
