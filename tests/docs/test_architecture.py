"""docs/architecture.md names the files that a send really visits."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import penstock
from penstock.compiled import is_compiled
from penstock.server.app import App
from penstock.server.config import Config
from tests.docs.pages import DOCS, sections

SOURCE = Path(penstock.__file__).parent
# What the event loop calls for a request: its bytes, and later the unit. A timer that happens to fire is left out.
ROOTS = ("edge/connection.py", "broker/commit.py")


def listed() -> list[str]:
    [text] = [section.text for section in sections(DOCS / "architecture.md") if section.title == "A send"]
    return re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE)


@contextmanager
def traced(visited: set[str]) -> Iterator[None]:
    """Note the files under src/penstock in which a function is called on behalf of a request."""

    def called_for_a_request(frame: FrameType | None) -> bool:
        outermost = None
        while frame is not None:
            name = path_of(frame)
            outermost = name or outermost
            frame = frame.f_back
        return outermost in ROOTS

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (name := path_of(frame)) and called_for_a_request(frame):
            visited.add(name)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def path_of(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    return path.removeprefix(f"{SOURCE}/") if path.startswith(f"{SOURCE}/") else None


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, start: str, body: bytes) -> str:
    head = f"{start} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    received = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"(?im)^content-length: (\d+)", received)
    await reader.readexactly(int(length[1]) if length else 0)
    return received.partition("\r\n")[0]


@pytest.mark.skipif(is_compiled(), reason="compiled functions cannot be traced; `make test-plain` runs this")
async def test_a_send_visits_the_files_that_the_page_lists(tmp_path: Path) -> None:
    app = App(Config(store=f"sqlite:///{tmp_path}/penstock.db", port=0))
    await app.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(app.url.rpartition(":")[2]))
        settings = b'{"retention_timeout": 60, "visibility_timeout": 30, "message_deduplication": false}'
        assert "201" in await answer(reader, writer, "PUT /queues/q", settings)
        # What is remembered after a few requests, such as the route and the queue, is not part of the way.
        for _ in range(3):
            assert "201" in await answer(reader, writer, "POST /messages/q", b"one")
        visited: set[str] = set()
        with traced(visited):
            assert "201" in await answer(reader, writer, "POST /messages/q", b"two")
        writer.close()
        await writer.wait_closed()
    finally:
        await app.stop()
    assert visited == set(listed())


def test_the_way_is_short() -> None:
    assert len(listed()) == len(set(listed())) <= 13


def test_every_file_on_the_page_exists() -> None:
    text = (DOCS / "architecture.md").read_text()
    for name in re.findall(r"`([\w/]+\.(?:py|sql))`", text):
        assert (SOURCE / name).is_file() or list(SOURCE.rglob(name)), name
