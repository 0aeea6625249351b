"""Bytes into frames: however they are cut, and whatever is wrong with them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bridge import frames
from penstock.bridge.calls import Calls, ClaimCall, decode_calls
from penstock.bridge.frames import HEADER_BYTES, BrokenBridge, FrameReader, FrameWriter


def calls(number: int, name: str = "q") -> Calls:
    return Calls([], [ClaimCall(number, name, 1, None, 0, None)], [], [], [])


def read_numbers(reader: FrameReader, data: bytes) -> list[int]:
    return [decode_calls(content).claims[0].number for content in reader.feed(data)]


@given(st.lists(st.text(max_size=300), max_size=20), st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_frames_are_the_same_however_their_bytes_are_cut(names: list[str], pieces: list[int]) -> None:
    writer, reader = FrameWriter(), FrameReader()
    data = b"".join(writer.frame(calls(number, name)) for number, name in enumerate(names))
    read: list[int] = []
    start = 0
    while start < len(data):
        size = pieces[start % len(pieces)]
        read += read_numbers(reader, data[start : start + size])
        start += size
    assert read == list(range(len(names)))


def test_a_frame_that_is_cut_off_gives_nothing() -> None:
    reader = FrameReader()
    whole = bytes(FrameWriter().frame(calls(1)))
    assert reader.feed(whole[:-1]) == []
    assert read_numbers(reader, whole[-1:]) == [1]


def test_a_frame_that_comes_twice_ends_the_bridge() -> None:
    reader, frame = FrameReader(), bytes(FrameWriter().frame(calls(1)))
    reader.feed(frame)
    with pytest.raises(BrokenBridge, match="frame 0 came where frame 1 was expected"):
        reader.feed(frame)


def test_a_frame_that_is_missing_ends_the_bridge() -> None:
    writer = FrameWriter()
    writer.frame(calls(1))
    with pytest.raises(BrokenBridge, match="frame 1 came where frame 0 was expected"):
        FrameReader().feed(bytes(writer.frame(calls(2))))


def test_a_frame_of_another_version_ends_the_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = FrameWriter().frame(calls(1))
    frame[HEADER_BYTES - 1] += 1
    with pytest.raises(BrokenBridge, match="version 3, not 2"):
        FrameReader().feed(bytes(frame))


def test_a_frame_that_is_too_long_ends_the_bridge_before_its_content_is_awaited() -> None:
    header = struct.pack(">IIB", frames.LONGEST + 1, 0, frames.VERSION)
    with pytest.raises(BrokenBridge, match="too long"):
        FrameReader().feed(header)


@given(st.binary(min_size=1, max_size=100))
def test_whatever_comes_is_a_frame_or_the_end_of_the_bridge(data: bytes) -> None:
    reader = FrameReader()
    try:
        contents = reader.feed(data)
    except BrokenBridge:
        return
    assert contents == [] or data.startswith(bytes(3))


def test_a_long_frame_is_gathered_from_its_pieces() -> None:
    frame = bytes(FrameWriter().frame(calls(7, "x" * 300_000)))
    reader, read = FrameReader(), []
    for start in range(0, len(frame), 4096):
        read += read_numbers(reader, frame[start : start + 4096])
    assert read == [7]
