"""Long answers are put together piece by piece, each in a turn of the event loop of its own: what others have asked for
meanwhile comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from penstock.edge.http import Response
from penstock.faces.answers import JSON, encode_json
from penstock.pending import Pending

# Rows of a piece, if nothing else is said.
ROWS = 250


class Size(NamedTuple):
    """What a piece is made of, at most: so many rows, and about so many bytes in their bodies."""

    rows: int
    bytes: int


USUAL = Size(ROWS, 256 * 1024)
# A batch of Arrow costs much for itself, and little for each row.
OF_ARROW = Size(1_000, 256 * 1024)


class Row(Protocol):
    @property
    def body(self) -> bytes | None: ...


T = TypeVar("T", bound=Row)


def in_pieces(
    rows: Sequence[T], add: Callable[[Sequence[T]], object], finish: Callable[[], Response], size: Size = USUAL
) -> Pending[Response]:
    """`add` is called for some rows at a time, and `finish` when all were added. If they were more than one piece, to
    finish the answer has a turn of its own, and so has sending it. Of no rows, one piece is made as well."""
    answer: Pending[Response] = Pending()
    _add_piece(answer, rows, 0, size, add, finish)
    return answer


def _add_piece(
    answer: Pending[Response],
    rows: Sequence[T],
    start: int,
    size: Size,
    add: Callable[[Sequence[T]], object],
    finish: Callable[[], Response],
) -> None:
    """A function, not a closure that calls itself: thousands of rows would be freed by the collector of garbage alone,
    and everybody would wait for that."""
    if answer.is_abandoned:
        return
    try:
        if start < len(rows) or not start:
            end = _end(rows, start, size)
            add(rows[start:end])
            if start or end < len(rows):
                asyncio.get_running_loop().call_soon(_add_piece, answer, rows, end, size, add, finish)
                return
        whole = finish()
    except Exception as error:
        answer.reject(error)
        return
    if start:
        asyncio.get_running_loop().call_soon(answer.resolve, whole)
    else:
        answer.resolve(whole)


def _end(rows: Sequence[Row], start: int, size: Size) -> int:
    """Where the piece ends that begins there: behind one row at least."""
    most = min(start + size.rows, len(rows))
    held = 0
    for index in range(start, most):
        held += len(rows[index].body or b"")
        if held >= size.bytes:
            return index + 1
    return most


class JsonPage:
    """An object with a list of this name, made of pieces, and whatever else it tells. It is copied once: that of ten
    thousand messages is several megabytes."""

    def __init__(self, name: str, others: Mapping[str, object]) -> None:
        self._parts = [b'{"%s":[' % name.encode()]
        self._others = others

    def add(self, items: Sequence[object]) -> None:
        if len(self._parts) > 1:
            self._parts.append(b",")
        self._parts.append(encode_json(items)[1:-1])

    def response(self) -> Response:
        rest = encode_json(self._others)[1:]
        return Response(200, b"".join((*self._parts, b"]" if rest == b"}" else b"],", rest)), (JSON,))
