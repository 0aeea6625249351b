"""A ledger as `archive` leaves it in a lake, made up: a month of twelve queues, busier by day than by night."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from devtools import lakes
from penstock.spark.manifest import Place

_ROWS_A_FILE = 500_000
_DAYS = 30
_DAY_MS = 86_400_000
_FIRST = 1_790_000_000_000
_QUEUES = [f"queue-{number}" for number in range(12)]
_OUTCOMES = ["processed"] * 95 + ["dead-lettered"] * 2 + ["expired", "failed", "moved"]
_MS = pa.timestamp("ms", tz="UTC")


def write(lake: Path, rows: int) -> None:
    for number, start in enumerate(range(0, rows, _ROWS_A_FILE), 1):
        lakes.put(lake, Place("bench", number, _FIRST), _table(start, min(rows, start + _ROWS_A_FILE), rows))


def _table(start: int, stop: int, rows: int) -> pa.Table:
    chance = random.Random(start)
    numbers = range(start, stop)
    finished = [_FIRST + _DAYS * _DAY_MS * number // rows for number in numbers]
    handled = [int(chance.expovariate(1 / 200)) for _ in numbers]
    waited = [int(chance.expovariate(1 / 2_000)) for _ in numbers]
    receives = [1 if chance.random() < 0.9 else chance.randint(2, 5) for _ in numbers]
    claimed = [end - work for end, work in zip(finished, handled, strict=True)]
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "queue": pa.array(chance.choices(_QUEUES, k=len(numbers))),
            "id": pa.array([f"{number:036x}" for number in numbers]),
            "sent_at": pa.array([at - wait for at, wait in zip(claimed, waited, strict=True)], _MS),
            "first_claimed_at": pa.array(claimed, _MS),
            "last_claimed_at": pa.array(claimed, _MS),
            "finished_at": pa.array(finished, _MS),
            "receives": pa.array(receives, pa.int32()),
            "outcome": pa.array(chance.choices(_OUTCOMES, k=len(numbers))),
            "size": pa.array([200] * len(numbers), pa.int64()),
            "body_hash": pa.array([number.to_bytes(32, "big") for number in numbers], pa.binary()),
            "content_type": pa.array(["application/json"] * len(numbers)),
            "body": pa.array([None] * len(numbers), pa.binary()),
        }
    )
