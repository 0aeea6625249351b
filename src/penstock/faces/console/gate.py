"""Who may come in: the check of the console's own routes, made before a body is read.

A browser adds the cookie of a session by itself. So, other than for the APIs, where a request comes from is asked with
and without keys: see `penstock.faces.guard`. What a form changes needs a token of its session on top of that, which
`visit.py` asks for when the body is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from penstock.edge.http import Request, Response
from penstock.edge.router import Client, Route
from penstock.errors import NotPermitted
from penstock.faces.callers import EVERYONE, KeyHolder
from penstock.faces.console.sessions import Session, Sessions, Standing
from penstock.faces.guard import Origins
from penstock.faces.permission import Caller
from penstock.keys import EVERY_QUEUE, Keyring, needed_rule

SIGN_IN: Final = "/console/sign-in"
HOME: Final = "/console"
# A request that no person has caused says so, and does not keep a session alive.
POLL: Final = b"x-console-poll"


class On(Enum):
    """On which queue the action must be permitted."""

    NOTHING = auto()  # anybody may see it
    SIGNED_IN = auto()  # any key will do; the handler asks about each queue
    QUEUE = auto()  # the first parameter of the path
    EVERY_QUEUE = auto()


@dataclass(frozen=True, slots=True)
class Needs:
    action: str = ""
    on: On = On.QUEUE


ANYBODY: Final = Needs(on=On.NOTHING)
SIGNED_IN: Final = Needs(on=On.SIGNED_IN)


class Nobody:
    """The caller who has not signed in."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.rules: tuple[str, ...] | None = ()

    def may(self, action: str, queue: str) -> bool:  # noqa: ARG002
        return False


class Visitor:
    """A caller with a session. `is_new` says that the browser does not have its cookie yet."""

    def __init__(self, caller: Caller, session: Session, address: str = "", is_new: bool = False) -> None:
        self._caller = caller
        self.session = session
        self.address = address
        self.is_new = is_new
        self.name = caller.name
        self.rules = caller.rules

    def may(self, action: str, queue: str) -> bool:
        return self._caller.may(action, queue)


class Gate:
    """`refused` makes the page for those who are turned away."""

    def __init__(
        self,
        keyring: Keyring,
        sessions: Sessions,
        origins: Origins,
        refused: Callable[[Request, int, str], Response],
    ) -> None:
        self._keyring = keyring
        self._sessions = sessions
        self._origins = origins
        self._refused = refused

    def admit(self, needs: Needs, request: Request, route: Route, client: Client) -> Response | None:
        """None lets the request pass, with its visitor noted."""
        asks = self._keyring.asks_for_keys
        # With keys, a page that came by another name has no cookie: browsers keep cookies by name.
        why = self._origins.refusal(request, page=True, reads=route.head, any_name=asks)
        if why is not None:
            return self._refused(request, 403, why)
        session = self._sessions.unseal(cookies(request).get(self._sessions.cookie, ""))
        if not asks:
            # A session of a key may come from the process in which the first one was just made: it is not replaced.
            request.caller = Visitor(EVERYONE, session or self._sessions.begin(), client.address(), session is None)
            return None
        standing = self._sessions.standing(session)
        key = None if session is None or standing is not Standing.GOOD else self._sessions.key_of(session)
        if session is None or key is None:
            if needs.on is not On.NOTHING:
                return to_sign_in(request, standing)
            known = session if session is not None and session.key is None else None
            request.caller = Visitor(Nobody(), known or self._sessions.begin(), client.address(), known is None)
            return None
        self._sessions.note_use(key, session)
        visitor = Visitor(KeyHolder(key), session, client.address())
        request.caller = visitor
        if needs.on in (On.NOTHING, On.SIGNED_IN):
            return None
        queue = EVERY_QUEUE if needs.on is On.EVERY_QUEUE else request.params[0]
        # A queue called * cannot exist; asking for it must not be taken for a rule about all.
        if visitor.may(needs.action, queue) and (queue != EVERY_QUEUE or needs.on is On.EVERY_QUEUE):
            return None
        return self._refused(request, 403, str(NotPermitted(needed_rule(needs.action, queue))))


_WHY: Final = {Standing.IDLE: "idle", Standing.REVOKED: "revoked", Standing.EXPIRED: "expired", Standing.ENDED: "ended"}


def to_sign_in(request: Request, standing: Standing) -> Response:
    """Where to sign in, and to come back from there."""
    words = [f"why={_WHY[standing]}"] if standing in _WHY else []
    is_part = is_fragment(request)
    if is_part:
        whence = urlsplit(request.headers.get(b"hx-current-url", b"").decode("latin-1"))
        back = own_path(f"{whence.path}?{whence.query}" if whence.query else whence.path)
    else:
        target = f"{request.path}?{request.query}" if request.query else request.path
        back = own_path(target) if request.method in ("GET", "HEAD") else HOME
    if back != HOME:
        words.append(f"next={quote(back, safe='/')}")
    place = SIGN_IN + ("?" if words else "") + "&".join(words)
    if is_part:
        # The part of a page cannot lead elsewhere; the page can.
        return Response(401, b"", [(b"HX-Redirect", place.encode()), (b"Cache-Control", b"no-store")])
    return Response(303, b"", [(b"Location", place.encode()), (b"Cache-Control", b"no-store")])


def own_path(target: str) -> str:
    """The target if it is one of the console's, else its first page, so that no one is led to another site."""
    path = target.partition("?")[0]
    is_own = path == HOME or path.startswith(HOME + "/")
    plain = target.isascii() and target.isprintable() and " " not in target and "\\" not in target
    # A browser takes these steps back before it asks: they lead to the APIs, where a GET may claim.
    climbs = any(step in (".", "..") for step in unquote(path).split("/"))
    return target if is_own and plain and not climbs and not path.startswith(SIGN_IN) and len(target) < 2_000 else HOME


def is_fragment(request: Request) -> bool:
    """Whether a script asks for a part of a page."""
    return b"hx-request" in request.headers


def cookies(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    # Several headers are joined with a comma, which no cookie of ours contains.
    for pair in request.headers.get(b"cookie", b"").replace(b",", b";").split(b";"):
        name, _, value = pair.partition(b"=")
        # The first of a name has the longest path.
        found.setdefault(name.strip().decode("latin-1"), value.strip().decode("latin-1"))
    return found
