"""What a route asks of its caller. One check, in `guard.py`, serves every face; a route that asks nothing is shut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from penstock.edge.http import Request, Response
from penstock.edge.router import Client, Route
from penstock.faces.answers import Error, json_response
from penstock.model import Actor


class Caller(Protocol):
    """Who sent a request, as far as handlers need to know."""

    @property
    def name(self) -> str | None:
        """That of the API key; None where none is needed."""

    @property
    def rules(self) -> tuple[str, ...] | None:
        """Those of the API key; None where none is needed."""

    def may(self, action: str, queue: str) -> bool: ...


class Refusal(Enum):
    NO_KEY = auto()
    UNKNOWN_KEY = auto()
    NOT_PERMITTED = auto()
    FOREIGN = auto()  # a web page of another origin, or a name that is not the server's
    SLOW_DOWN = auto()  # too many wrong keys and signatures have come lately
    # Only on routes that take signatures.
    MALFORMED_SIGNATURE = auto()
    WRONG_SIGNATURE = auto()  # also one that is too old, ahead of its time, or for something else


class Scope(Enum):
    """On which queue the action must be permitted."""

    ANYBODY = auto()  # no key is asked for
    QUEUE = auto()  # the first parameter of the path
    EVERY_QUEUE = auto()  # only a rule for all queues will do
    ASKS_ITSELF = auto()  # the handler finds the queues in the request, and asks about each


TOO_MANY_WRONG_KEYS: Final = "too many wrong API keys"

# How a face answers those it refuses. It is told why, and in words what to say.
RefusalAnswer = Callable[[Refusal, str], Response]


def in_json(refusal: Refusal, why: str) -> Response:
    """How most faces put it: 401 for a key that is missing or unknown, 403 for what no better key is asked for."""
    if refusal in (Refusal.NO_KEY, Refusal.UNKNOWN_KEY):
        return json_response(401, Error(why), (b"WWW-Authenticate", b"Bearer"))
    if refusal is Refusal.SLOW_DOWN:
        return json_response(429, Error(why), (b"Retry-After", b"1"))
    return json_response(403, Error(why))


@dataclass(frozen=True, slots=True)
class Permission:
    """With `signed`, a request may be signed by a key in place of carrying one: see `penstock.faces.signatures`. Only a
    handler that asks itself can do that, because it has to verify the signature first."""

    action: str
    scope: Scope = Scope.QUEUE
    refused: RefusalAnswer = in_json
    signed: bool = False

    def __post_init__(self) -> None:
        if self.signed and self.scope is not Scope.ASKS_ITSELF:
            raise ValueError("a route that takes signatures has to ask itself")


PUBLIC = Permission("", Scope.ANYBODY)


@dataclass(frozen=True, slots=True)
class Gated:
    """What a route says whose callers are known in another way than by a key with every request: `admit` decides, as a
    guard does."""

    admit: Callable[[Request, Route, Client], Response | None]


def permits(request: Request, action: str, queue: str) -> bool:
    """For handlers of routes that ask themselves. A request no guard has seen permits nothing."""
    caller: Caller | None = request.caller
    return caller is not None and caller.may(action, queue)


def rules_of(request: Request) -> tuple[str, ...] | None:
    """What `permits` would say, as a value: for verbs of the broker that find the queues in the store, and the rules of
    `penstock.keys`."""
    caller: Caller | None = request.caller
    return () if caller is None else caller.rules


def name_of_caller(request: Request) -> str | None:
    """That of the API key, if there is one."""
    caller: Caller | None = request.caller
    return None if caller is None else caller.name


def actor_of(request: Request, via: str) -> Actor:
    """Who is written down for what the request does, through the API of this name."""
    return Actor(name_of_caller(request), via)
