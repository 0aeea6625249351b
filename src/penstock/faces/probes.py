"""`GET /health/live` and `GET /health/ready`: what orchestrators ask, with the reasons.

Live is a process whose event loop answers. Ready is one that can serve. Both are for everybody, so a reason is one of
a few sentences that name no host, file or queue: the log says more. Neither answer waits long for a store that hangs,
and however many ask, the store is asked once at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import CommitterGone, StoreBusy, StoreSilent
from penstock.faces.answers import json_response
from penstock.faces.description import Op, Tag, answer
from penstock.faces.permission import PUBLIC
from penstock.pending import Pending, resolved

_STOPPING: Final = "the server was told to stop"
_NO_COMMITTER: Final = "the process that writes to the store has ended; another one takes over soon"
_SILENT: Final = "the store has not answered in time"
_BUSY: Final = "another process has kept the store locked for a long time"
_BROKEN: Final = "the store cannot be used; the log says why"
_FULL: Final = "the device of the store is full: sends are refused, claims and acks go on"
_OLD_KEYS: Final = "the API keys cannot be read; those that were known last are in force"


class Check(Struct, frozen=True):
    """`why` is there where it is not `ok`."""

    name: Literal["running", "store", "room", "keys"]
    ok: bool
    why: Annotated[str | UnsetType, Meta(description="for people")] = UNSET


class Readiness(Struct, frozen=True):
    ready: Annotated[bool, Meta(description="whether every check but `room` is `ok`")]
    checks: list[Check]


class Liveness(Struct, frozen=True):
    live: Annotated[bool, Meta(description="whether the event loop of the process turns")] = True


_LIVE: Final = json_response(200, Liveness())
_NOT_LIVE: Final = json_response(503, Liveness(False))
_TAG: Final = Tag("probes", "What orchestrators ask of a server. No API key is needed.")
_GOOD: Final = [{"name": name, "ok": True} for name in ("running", "store", "room", "keys")]
_LIVE_OP: Final = Op(
    id="live",
    tag=_TAG,
    summary="Ask whether the process lives",
    description="Answered by its event loop alone, whatever has become of a database; where the loop stands still, as "
    "it does while the disk of a SQLite store hangs, by its understudy.",
    answers={
        200: answer("It does.", Liveness, {"live": True}),
        503: answer("Its event loop stands still.", Liveness, {"live": False}),
    },
)
_READY_OP: Final = Op(
    id="ready",
    tag=_TAG,
    summary="Ask whether the server can serve",
    description="Within a second, also where the store hangs. A full device alone leaves it ready: messages can still "
    "be received, which makes room.",
    answers={
        200: answer("It can.", Readiness, {"ready": True, "checks": _GOOD}),
        503: answer(
            "It cannot, and `checks` say why.",
            Readiness,
            {
                "ready": False,
                "checks": [_GOOD[0], {"name": "store", "ok": False, "why": _SILENT}, *_GOOD[2:]],
            },
        ),
    },
)


class Probes:
    """`are_keys_known` says whether the last look at the API keys has found them. After `answer_s` a store that was
    asked is not waited for. An understudy is not `live`: it answers for an event loop that stands still."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        are_keys_known: Callable[[], bool],
        answer_s: float,
        is_live: bool = True,
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._are_keys_known = are_keys_known
        self._answer_s = answer_s
        self._waiting: list[Pending[Response]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_asking = False
        self._liveness = _LIVE if is_live else _NOT_LIVE
        self.is_stopping = False

    def live(self, _request: Request) -> Response:
        return self._liveness

    def ready(self, _request: Request) -> Pending[Response]:
        if self.is_stopping:
            return resolved(self._answer(None, None))
        told: Pending[Response] = Pending()
        self._waiting.append(told)
        if self._timer is None:
            self._timer = self._loop.call_later(self._answer_s, self._tell, _SILENT, None)
        if not self._is_asking:
            self._is_asking = True
            self._broker.check_room().listen(self._asked, self._failed)
        return told

    def _asked(self, has_room: bool) -> None:
        self._is_asking = False
        self._tell(None, has_room)

    def _failed(self, error: Exception) -> None:
        self._is_asking = False
        match error:
            case CommitterGone():
                self._tell(_NO_COMMITTER, None)
            case StoreSilent():
                self._tell(_SILENT, None)
            case StoreBusy():
                self._tell(_BUSY, None)
            case _:
                self._tell(_BROKEN, None)

    def _tell(self, why_not: str | None, has_room: bool | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        response = self._answer(why_not, has_room)
        for told in waiting:
            told.resolve(response)

    def _answer(self, why_not: str | None, has_room: bool | None) -> Response:
        """`has_room` is None where it is not known."""
        checks = [Check("running", not self.is_stopping, _STOPPING if self.is_stopping else UNSET)]
        if not self.is_stopping:
            checks.append(Check("store", why_not is None, why_not or UNSET))
            known = self._are_keys_known()
            checks.append(Check("keys", known, UNSET if known else _OLD_KEYS))
        ready = all(check.ok for check in checks)
        if has_room is not None:
            checks.insert(2, Check("room", has_room, UNSET if has_room else _FULL))
        return json_response(200 if ready else 503, Readiness(ready, checks))


def probe_routes(probes: Probes | None) -> list[Route]:
    """Without probes, only to know their paths."""

    def unasked(_request: Request) -> Response:
        return _LIVE

    live, ready = (unasked, unasked) if probes is None else (probes.live, probes.ready)
    return [
        Route("GET", "/health/live", live, head=True, permission=PUBLIC, describe=_LIVE_OP),
        Route("GET", "/health/ready", ready, head=True, permission=PUBLIC, describe=_READY_OP),
    ]
