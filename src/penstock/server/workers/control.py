"""What the supervisor of a server and its processes say to each other: short words over a socket pair of each.

The socket is also a lifeline. A process whose supervisor has gone reads the end of it, and ends as well.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TypeAlias

from msgspec import Struct, json

from penstock.bridge.calls import Failure
from penstock.pending import Pending
from penstock.server.committer import StoreFacts

_MOST_BYTES = 1 << 16
_MOST_DESCRIPTORS = 16


class NewBridge(Struct, tag="new_bridge", frozen=True):
    """Its end of a new bridge comes with it: an edge gets one to the committer, the committer one to each edge. The
    bridges of an edge are numbered."""

    number: int


class Stop(Struct, tag="stop", frozen=True):
    """Take no more work, and finish what is there within so many seconds."""

    grace_s: float


class Finish(Struct, tag="finish", frozen=True):
    """To the committer: the edges have gone, end."""

    grace_s: float


class Reload(Struct, tag="reload", frozen=True):
    """Settings that can change while a server runs."""

    settings: dict[str, str | int | float | bool]


class KeysChanged(Struct, tag="keys_changed", frozen=True):
    """API keys have changed by another process: read them, and say so with the same number."""

    number: int


class KeysKnown(Struct, tag="keys_known", frozen=True):
    """All others have read the keys that were announced under this number."""

    number: int


class Ready(Struct, tag="ready", frozen=True):
    """To the supervisor: at work. The committer tells what it knows of the store, others whether they have pages."""

    facts: StoreFacts | None = None
    has_pages: bool = False
    has_console: bool = False


class CannotBegin(Struct, tag="cannot_begin", frozen=True):
    """It could not begin."""

    why: Failure


class BridgeLost(Struct, tag="bridge_lost", frozen=True):
    """From an edge: the bridge with this number has ended. Either the committer has died, or something came over it
    that could not be understood, or it did not arrive; then it needs another."""

    number: int


class KeysAnnounced(Struct, tag="keys_announced", frozen=True):
    """This process has changed the API keys: all others have to know before it answers."""

    number: int


class KeysRead(Struct, tag="keys_read", frozen=True):
    number: int


ToProcess: TypeAlias = NewBridge | Stop | Finish | Reload | KeysChanged | KeysKnown
ToSupervisor: TypeAlias = Ready | CannotBegin | BridgeLost | KeysAnnounced | KeysRead

_encode = json.Encoder().encode
_read_as_process = json.Decoder(ToProcess).decode
_read_as_supervisor = json.Decoder(ToSupervisor).decode


class _Words:
    """Lines as they come, and the descriptors that came with them."""

    def __init__(self) -> None:
        self._rest = b""
        self.descriptors: list[int] = []

    def take(self, source: socket.socket) -> list[bytes] | None:
        """The lines that are there; None at the end."""
        try:
            data, descriptors, _, _ = socket.recv_fds(source, _MOST_BYTES, _MOST_DESCRIPTORS)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self.descriptors += descriptors
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class SupervisorEnd:
    """The supervisor's end of the line to one process."""

    def __init__(self, line: socket.socket) -> None:
        self.socket = line
        line.setblocking(False)
        self._words = _Words()

    def say(self, word: ToProcess, descriptors: tuple[int, ...] = ()) -> bool:
        """False where the process has not listened for so long that there is no room for another word. One that has
        gone need not hear it."""
        try:
            socket.send_fds(self.socket, [_encode(word) + b"\n"], descriptors)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def hear(self) -> list[ToSupervisor] | None:
        """What was said; None where the process has gone."""
        lines = self._words.take(self.socket)
        return None if lines is None else [_read_as_supervisor(line) for line in lines]

    def close(self) -> None:
        self.socket.close()


class ProcessEnd:
    """The end of the line in a process of its own, on its event loop. `heard` is called with each word, and `gone` when
    the supervisor has gone."""

    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        line.setblocking(False)
        self._words = _Words()
        self._announced: dict[int, Pending[None]] = {}
        self._numbers = count(1)

    def say(self, word: ToSupervisor) -> None:
        with suppress(OSError):
            self._socket.sendall(_encode(word) + b"\n")

    def listen(
        self,
        loop: asyncio.AbstractEventLoop,
        heard: Callable[[ToProcess], object],
        gone: Callable[[], object],
    ) -> None:
        def hear() -> None:
            lines = self._words.take(self._socket)
            if lines is None:
                loop.remove_reader(self._socket)
                gone()
                return
            for line in lines:
                word = _read_as_process(line)
                if isinstance(word, KeysKnown):
                    self._announced.pop(word.number).resolve(None)
                else:
                    heard(word)

        loop.add_reader(self._socket, hear)

    def bridge(self) -> socket.socket | None:
        """The end of a bridge that came with a word; None where this process may not open another file."""
        if not self._words.descriptors:
            return None
        end = socket.socket(fileno=self._words.descriptors.pop(0))
        end.setblocking(False)
        return end

    def announce_keys(self) -> Pending[None]:
        """Resolved when all other processes know the keys as they are now."""
        number = next(self._numbers)
        pending = self._announced[number] = Pending()
        self.say(KeysAnnounced(number))
        return pending
