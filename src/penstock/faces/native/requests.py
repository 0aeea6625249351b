"""How the native API reads what it is sent, and the parameters and types that several of its operations share."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from penstock import limits, names
from penstock.edge.http import Handler, Request
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import answered_by, error_response
from penstock.faces.bodies import within
from penstock.faces.description import NAME_RULE, NumberParam, Op, Param, is_number, name_text, text
from penstock.faces.permission import Permission

# What the log of actions calls this API.
VIA: Final = "native"

SMALL: Final = BodyRule(64 * 1024)
MEDIUM: Final = BodyRule(1024 * 1024)

DURATION_BOUNDS: Final = (0, limits.DURATION_MS)
Duration = Annotated[int, Meta(ge=DURATION_BOUNDS[0], le=DURATION_BOUNDS[1])]
Instant = Annotated[int, Meta(ge=0, description="milliseconds since 1970", extra_json_schema={"format": "int64"})]

QUEUE: Final = Param(
    "queue",
    text(minLength=1),
    "The name of the queue. In front of it, `dedupq/`, written `dedupq%2F`, names a queue of EmoDB's "
    "DedupQueueService.",
    where="path",
    example="orders",
)
CONSUMER: Final = Param("consumer", name_text(), f"Who it is for: {NAME_RULE}.", where="path", example="lake")
NUMBER: Final = NumberParam("number", 1, 2**53, "Its number, from 1.", where="path", example=1)
OF_CONSUMER: Final = Param("consumer", name_text(), "Only those of one consumer.")
AFTER_NUMBER: Final = NumberParam("after", 0, 2**53, "Only those with a higher number.", default=0)
LIST_LIMIT: Final = NumberParam("limit", 1, limits.LIST_LIMIT, "At most this many.", default=1_000)


def route(
    method: str,
    pattern: str,
    handler: Handler,
    describe: Op,
    permission: Permission,
    body: BodyRule = MEDIUM,
    head: bool = False,
) -> Route:
    """A route whose errors are answered, and which takes the query parameters that it describes and no others."""
    return Route(
        method,
        pattern,
        _answered(handler, *describe.query),
        body,
        head=head,
        permission=permission,
        describe=describe,
    )


def query_number(request: Request, param: NumberParam) -> int:
    """Without a default, 0 where it is left out."""
    given = request.query_params().get(param.name)
    if given is None:
        return param.default or 0
    if not is_number(given):
        raise InvalidRequest(f"{param.name} must be a number")
    return within(param.name, int(given), param.lowest, param.highest)


def query_flag(request: Request, param: Param) -> bool:
    given = request.query_params().get(param.name)
    if given is None:
        return bool(param.default)
    if given not in ("true", "false"):
        raise InvalidRequest(f"{param.name} must be true or false")
    return given == "true"


def checked_word(name: str, word: str, longest: int) -> str:
    """A name that the caller has given to something: every store can keep it, and every log show it."""
    if not (0 < len(word) <= longest and word.isprintable()):
        raise InvalidRequest(f"{name} has 1 to {longest} printable characters")
    return word


def query_consumer(request: Request, param: Param = OF_CONSUMER) -> str | None:
    given = request.query_params().get(param.name)
    return None if given is None else _checked_consumer(given)


def consumer_and_number(consumer: str, number: str) -> tuple[str, int]:
    """Of a shipment or an export, as they stand in its path."""
    if not is_number(number):
        raise InvalidRequest("the number of a shipment or an export is a whole number")
    return _checked_consumer(consumer), within("the number", int(number), NUMBER.lowest, NUMBER.highest)


def checked_lease(name: str) -> str:
    if not names.is_valid(name):
        raise InvalidRequest("a lease is called by the same rules as a queue")
    return name


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


_answered = answered_by(error_response, _check_query)
