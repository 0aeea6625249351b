"""Which number it is the turn of: shipments and exports of a consumer are numbered from 1, one open at a time."""

from __future__ import annotations

from penstock.errors import ShipmentConflict


def check_turn(consumer: str, number: int, last: int, is_open: bool) -> None:
    """`last` is the consumer's last number, 0 for none, and `is_open` says whether that one has not ended."""
    expected = last if is_open else last + 1
    if number != expected:
        raise ShipmentConflict(consumer, number, expected)
