"""Long answers are put together in pieces, and others are served in between."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from dataclasses import dataclass

import pytest

from penstock.edge.http import Response
from penstock.faces import pieces
from penstock.faces.pieces import JsonPage, in_pieces
from penstock.pending import Pending


@dataclass
class Row:
    number: int
    body: bytes | None = b"x"


def page(rows: list[Row], sizes: list[int], **others: object) -> Pending[Response]:
    made = JsonPage("rows", others)

    def add(some: list[Row]) -> None:
        sizes.append(len(some))
        made.add([row.number for row in some])

    return in_pieces(rows, add, made.response)


async def answered(answer: Pending[Response]) -> object:
    told = asyncio.get_running_loop().create_future()
    answer.listen(told.set_result, told.set_exception)
    return json.loads((await told).body)


@pytest.mark.parametrize("count", [0, 1, pieces.ROWS, pieces.ROWS + 1, 3 * pieces.ROWS])
async def test_nothing_is_missing_or_twice(count: int) -> None:
    sizes: list[int] = []
    rows = [Row(number) for number in range(count)]
    assert await answered(page(rows, sizes, after=7)) == {"rows": [*range(count)], "after": 7}
    assert max(sizes) <= pieces.ROWS
    assert sum(sizes) == count


async def test_a_page_may_tell_nothing_else() -> None:
    assert await answered(page([Row(1)], [])) == {"rows": [1]}


async def test_large_bodies_make_small_pieces() -> None:
    sizes: list[int] = []
    rows = [Row(number, b"x" * 100_000) for number in range(7)]
    assert await answered(page(rows, sizes)) == {"rows": [*range(7)]}
    assert sizes == [3, 3, 1]


async def test_others_are_served_in_between() -> None:
    sizes: list[int] = []
    seen: list[int] = []
    answer = page([Row(number) for number in range(3 * pieces.ROWS)], sizes)
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: seen.append(len(sizes)))
    await answered(answer)
    assert seen in ([1], [2])


async def test_nothing_is_made_for_a_caller_who_has_gone() -> None:
    sizes: list[int] = []
    answer = page([Row(number) for number in range(3 * pieces.ROWS)], sizes)
    answer.abandon()
    for _ in range(5):
        await asyncio.sleep(0)
    assert sizes == [pieces.ROWS]


async def test_rows_are_free_once_they_are_answered() -> None:
    """Without the collector of garbage, for which everybody would wait."""
    rows = [Row(number) for number in range(3 * pieces.ROWS)]
    last = weakref.ref(rows[-1])
    gc.disable()
    try:
        await answered(page(rows, []))
        await asyncio.sleep(0)
        del rows
        assert last() is None
    finally:
        gc.enable()


async def test_what_cannot_be_made_is_an_error() -> None:
    def fail(_some: object) -> None:
        raise ValueError("cannot be shown")

    with pytest.raises(ValueError, match="cannot be shown"):
        await answered(in_pieces([Row(1)], fail, JsonPage("rows", {}).response))
