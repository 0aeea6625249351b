"""How the native API reads what it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from penstock import names
from penstock.edge.http import Request
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


def query_flag(request: Request, name: str, default: bool) -> bool:
    text = request.query_params().get(name)
    if text is None:
        return default
    if text not in ("true", "false"):
        raise InvalidRequest(f"{name} must be true or false")
    return text == "true"


def query_consumer(request: Request) -> str | None:
    name = request.query_params().get("consumer")
    return None if name is None else _checked_consumer(name)


def consumer_and_number(consumer: str, number: str) -> tuple[str, int]:
    """Of a shipment or an export, as they stand in its path."""
    if not is_number(number):
        raise InvalidRequest("the number of a shipment or an export is a whole number")
    return _checked_consumer(consumer), within("the number", int(number), 1, 2**53)


def _checked_consumer(name: str) -> str:
    if not names.is_valid(name):
        raise InvalidRequest("a consumer is called by the same rules as a queue")
    return name


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    """A parameter that is passed over would be taken for one that was heard: a claim with ?limit=100, for instance."""
    for name in request.query_params():
        if name not in known:
            there_are = f"; there are {', '.join(known)}" if known else ": this request takes none"
            raise InvalidRequest(f"{name[:80]!r} is not a query parameter here{there_are}")


answered = answered_by(error_response, _check_query)
