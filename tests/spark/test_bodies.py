"""No body is dropped, whatever is in it, and what does not decode is kept as it came."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from penstock.limits import BODY_BYTES
from tests.spark.conftest import Queue, bodies

_HOSTILE = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"a\x00b\x00",
    "ünïcödé ✓".encode(),
    b"\xed\xa0\x80",
    b"{",
    b"null",
    b"[1,2",
    b'{"a": "not a number"}',
    b'{"a": 1e400}',
    b'{"a": 9223372036854775808}',
    b'"\\ud800"',
    b"[" * 5_000,
    b"x" * BODY_BYTES,
]


@pytest.mark.parametrize("how", [{}, {"consumer": "c"}])
def test_bytes_come_back_as_they_were(queue: Queue, how: dict[str, str]) -> None:
    queue.send(*_HOSTILE)
    assert bodies(queue.read(**how)) == sorted(_HOSTILE)


def test_text(queue: Queue) -> None:
    queue.send(*_HOSTILE)
    found = {_kept(row): row.body for row in queue.read(format="text").collect()}
    assert sorted(found) == sorted(_HOSTILE)
    for body, text in found.items():
        try:
            assert text == body.decode()
        except UnicodeDecodeError:
            assert text is None


def test_json_without_a_schema_is_checked_text(queue: Queue) -> None:
    queue.send(*_HOSTILE, b' {"a": [1]} ')
    found = {_kept(row): row.body for row in queue.read(format="json").collect()}
    assert sorted(found) == sorted([*_HOSTILE, b' {"a": [1]} '])
    assert {body: text for body, text in found.items() if text is not None}.keys() == {
        b"null",
        b'{"a": "not a number"}',
        b'{"a": 9223372036854775808}',
        b' {"a": [1]} ',
    } | ({b'{"a": 1e400}'} if found[b'{"a": 1e400}'] else set())


def test_json_with_a_schema(queue: Queue) -> None:
    queue.send(*_HOSTILE, b'{"a": 5, "more": true}', b"{}", b'{"a": null}')
    rows = queue.read(format="json", bodySchema="a BIGINT").collect()
    assert len(rows) == len(_HOSTILE) + 3
    assert sorted(bytes(row.bad_record) for row in rows if row.body is None) == sorted(_HOSTILE)
    assert sorted(str(row.body.a) for row in rows if row.body is not None) == ["5", "None", "None"]
    assert all(row.bad_record is None for row in rows if row.body is not None)


def test_json_of_every_type(queue: Queue) -> None:
    queue.send(
        b'{"s": "x", "i": 1, "b": true, "d": 1.5, "n": 12.34, "t": "2024-05-06T07:08:09Z", "day": "2024-05-06",'
        b' "raw": "AAE=", "l": [1, null], "m": {"k": {"x y": 2}}}'
    )
    schema = (
        "s STRING, i INT, b BOOLEAN, d DOUBLE, n DECIMAL(6,2), t TIMESTAMP, day DATE, raw BINARY, l ARRAY<INT>, "
        "m MAP<STRING, STRUCT<`x y`: INT>>"
    )
    [row] = queue.read(format="json", bodySchema=schema).collect()
    body = row.body.asDict(recursive=True)
    assert body.pop("t").astimezone(UTC) == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert bytes(body.pop("raw")) == b"\x00\x01"
    assert body == {
        "s": "x", "i": 1, "b": True, "d": 1.5, "n": Decimal("12.34"), "day": date(2024, 5, 6), "l": [1, None],
        "m": {"k": {"x y": 2}},
    }  # fmt: skip


def test_what_only_arrow_finds_too_large_spoils_no_neighbour(queue: Queue) -> None:
    queue.send(b'{"n": 1.5}', b'{"n": 123456.789}', b'{"n": 2.5}')
    rows = queue.read("body struct<n: decimal(4,2)>, bad_record binary").collect()
    assert [row.body and row.body.n for row in rows] == [Decimal("1.50"), None, Decimal("2.50")]
    assert [row.bad_record and bytes(row.bad_record) for row in rows] == [None, b'{"n": 123456.789}', None]


def _kept(row: object) -> bytes:
    """The body as it came, from whichever column has it."""
    assert (row.body is None) != (row.bad_record is None)
    return bytes(row.bad_record) if row.body is None else row.body.encode()
