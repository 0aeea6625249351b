"""How the native API reads what it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from penstock.edge.message import Request
from penstock.errors import InvalidRequest
from penstock.faces.answers import answered_by, error_response
from penstock.faces.numbers import is_number

T = TypeVar("T")


def decoder(shape: type[T]) -> Callable[[bytes], T]:
    """Decode and check in one step; an empty body is an empty object."""
    decode = msgspec.json.Decoder(shape).decode

    def read(body: bytes) -> T:
        try:
            return decode(body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"the body does not parse: {error}") from error

    return read


def within(name: str, value: int, lowest: int, highest: int) -> int:
    if not lowest <= value <= highest:
        raise InvalidRequest(f"{name} must be between {lowest} and {highest}")
    return value


def query_number(request: Request, name: str, default: int, lowest: int, highest: int) -> int:
    text = request.query_params().get(name)
    if text is None:
        return default
    if not is_number(text):
        raise InvalidRequest(f"{name} must be a number")
    return within(name, int(text), lowest, highest)


answered = answered_by(error_response)
