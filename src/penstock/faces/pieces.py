"""Long answers are put together piece by piece, each in a turn of the event loop of its own: what others have asked for
meanwhile comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.edge.http import Response
from penstock.faces.answers import JSON, encode_json
from penstock.pending import Pending

# What a piece is made of, at most: so many rows, and about so many bytes in their bodies.
ROWS = 250
_BYTES = 256 * 1024


class Row(Protocol):
    @property
    def body(self) -> bytes | None: ...


T = TypeVar("T", bound=Row)
R = TypeVar("R")


def in_pieces(
    rows: Sequence[T], make: Callable[[Sequence[T]], R], put_together: Callable[[list[R]], Response]
) -> Pending[Response]:
    """`make` is called for some rows at a time, and `put_together` with what it has made of all. Of no rows, one piece
    is made as well."""
    answer: Pending[Response] = Pending()
    pieces: list[R] = []

    def go_on(start: int) -> None:
        if answer.is_abandoned:
            return
        try:
            end = _end(rows, start)
            pieces.append(make(rows[start:end]))
            if end < len(rows):
                asyncio.get_running_loop().call_soon(go_on, end)
                return
            whole = put_together(pieces)
        except Exception as error:
            answer.reject(error)
        else:
            answer.resolve(whole)

    go_on(0)
    return answer


def _end(rows: Sequence[Row], start: int) -> int:
    """Where the piece ends that begins there: behind one row at least."""
    size = 0
    for index in range(start, min(start + ROWS, len(rows))):
        size += len(rows[index].body or b"")
        if size >= _BYTES:
            return index + 1
    return min(start + ROWS, len(rows))


def json_items(items: Sequence[object]) -> bytes:
    """As a piece of a list."""
    return encode_json(items)[1:-1]


def json_page(name: str, items: Sequence[bytes], others: Mapping[str, object]) -> Response:
    """An object with a list of this name, of pieces, and whatever else it tells. It is copied once: that of ten
    thousand messages is several megabytes."""
    rest = encode_json(others)[1:]
    parts = [piece for item in items for piece in (b",", item)]
    parts[0] = b'{"%s":[' % name.encode()
    return Response(200, b"".join((*parts, b"]" if rest == b"}" else b"],", rest)), (JSON,))
