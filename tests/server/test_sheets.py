"""Sheets: what one process writes others read, whole or not at all."""

from __future__ import annotations

import os

import pytest

from penstock.server.board import Board
from penstock.server.sheets import SIDE_BYTES, Sheets


def test_what_was_written_last_is_read() -> None:
    sheets = Sheets(2)
    assert sheets.read(0) == sheets.read(1) == b""
    for text in (b"one", b"two, which is longer", b"3", b""):
        sheets.write(1, text)
        assert sheets.read(1) == text
    assert sheets.read(0) == b""


def test_there_is_room_for_half_a_mebibyte() -> None:
    sheets = Sheets(2)
    most = b"x" * (SIDE_BYTES - 16)
    for _ in range(2):
        sheets.write(0, most)
    assert (sheets.read(0), sheets.read(1)) == (most, b"")
    with pytest.raises(ValueError, match="room"):
        sheets.write(0, most + b"x")
    assert sheets.read(0) == most


def test_one_who_dies_while_writing_leaves_what_was_there() -> None:
    sheets = Sheets(1)
    sheets.write(0, b"first")
    sheets.write(0, b"second")
    for at in range(60):
        # A byte of the side that the next writing uses, as half a writing leaves it.
        sheets._memory[SIDE_BYTES + at] ^= 0xFF
        assert sheets.read(0) == b"second"
    sheets.write(0, b"third")
    sheets.write(0, b"fourth")
    assert sheets.read(0) == b"fourth"


def test_another_process_reads_it() -> None:
    sheets = Sheets(1)
    child = os.fork()
    if not child:
        sheets.write(0, b"from the child")
        os._exit(0)
    os.waitpid(child, 0)
    assert sheets.read(0) == b"from the child"


def test_totals_of_all_are_added_up_and_go_on_in_a_successor() -> None:
    board = Board(["one", "two"])
    one, two = board.place("one"), board.place("two")
    key = ("native", "GET", "/")
    one.write_totals([{"requests": {key: (3,)}}, {"seconds": {key: (1, 2, 0.5)}}])
    two.write_totals([{"requests": {key: (4,), ("", "", ""): (1,)}}])
    assert board.report().totals == {"requests": {key: [7], ("", "", ""): [1]}, "seconds": {key: [1, 2, 0.5]}}
    board.leave("one")
    assert board.report().totals["requests"][key] == [7]
    successor = board.place("one")
    successor.write_totals([{"requests": {key: (1,)}}])
    assert board.report().totals == {"requests": {key: [8], ("", "", ""): [1]}, "seconds": {key: [1, 2, 0.5]}}
