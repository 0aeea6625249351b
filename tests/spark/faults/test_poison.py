"""Bodies that do not decode stop nothing: they land beside the others and are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.spark.jobs import Body, Run, Server, drain
from tests.servers import ThreadServer
from tests.spark.faults import truth
from tests.talk import Talk

pytestmark = pytest.mark.timeout(600)

_POISON = {
    "broken JSON": b'{"n": 1',
    "two values": b'{"n": 1} {"n": 2}',
    "no JSON at all": b"hello",
    "a megabyte of it": b"x" * 1_000_000,
    "NULs": b'{"n": 1}\0\0\0',
    "only NULs": b"\0" * 10,
    "invalid UTF-8": b'{"n": 1, "s": "\xff\xfe"}',
    "half a character": b'{"n": 1, "s": "\xe2\x82"}',
    "another type": b'{"n": "many"}',
    "another shape": b"[1, 2, 3]",
    "empty": b"",
    "deep": b"[" * 5000,
}


def test_poison(spark: Any, server: ThreadServer, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    good = {f'{{"n": {number}, "s": "fine"}}'.encode(): number for number in range(200)}
    truth.create(server.url)
    with Talk(server.url) as talk:
        for body in [*list(good)[:100], *_POISON.values(), *list(good)[100:]]:
            answer = talk("POST", "/v1/queues/q/messages", _as_message(body))
            assert answer.status == 201, answer.body
    sent = truth.in_queue(server.url)
    lake = tmp_path / "lake"

    summary = drain(Server(server.url), "q", str(lake), body=Body("json", "n INT, s STRING"), run=Run(spark))

    assert summary.messages == sent.total() == 200 + len(_POISON)
    assert summary.bad_records == len(_POISON)
    rows = [row for file in lake.rglob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted(row["bad_record"] for row in rows if row["body"] is None) == sorted(_POISON.values())
    assert sorted(row["body"]["n"] for row in rows if row["body"] is not None) == sorted(good.values())
    assert {row["id"] for row in rows} == {sent_id for sent_id, _ in sent}
    truth.check_audit(spark, server.url)


def _as_message(body: bytes) -> dict[str, list[dict[str, str]]]:
    import base64

    return {"messages": [{"body_base64": base64.b64encode(body).decode()}]}
