"""Signing in with an API key, and out again."""

from __future__ import annotations

import logging
from typing import Final

from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.faces.console.console import Console
from penstock.faces.console.gate import ANYBODY, HOME, SIGN_IN, SIGNED_IN, own_path
from penstock.faces.console.visit import VIA, Visit, route
from penstock.faces.permission import TOO_MANY_WRONG_KEYS
from penstock.model import ActionKind, Actor
from penstock.pending import Pending

log = logging.getLogger(__name__)

_WHY: Final = {
    "idle": "You were signed out: nothing was done for a while, or the session had lasted as long as one may.",
    "revoked": "The API key that you were signed in with was revoked.",
    "expired": "The API key that you were signed in with has expired.",
    "ended": "This session was signed out.",
    "out": "You are signed out.",
}
_LONGEST_SECRET: Final = 500


def entrance_routes(console: Console) -> list[Route]:
    entrance = _Entrance(console)
    return [
        route(console, "GET", SIGN_IN, entrance.ask, ANYBODY),
        route(console, "POST", SIGN_IN, entrance.sign_in, ANYBODY),
        route(console, "POST", "/console/sign-out", entrance.sign_out, SIGNED_IN),
    ]


class _Entrance:
    def __init__(self, console: Console) -> None:
        self._console = console

    def ask(self, visit: Visit) -> Response:
        back = own_path(visit.query.get("next", HOME))
        if not self._console.keyring.asks_for_keys or visit.visitor.session.key is not None:
            return Response(303, b"", [(b"Location", back.encode()), (b"Cache-Control", b"no-store")])
        return self._page(visit, back, why=_WHY.get(visit.query.get("why", "")))

    def sign_in(self, visit: Visit) -> Response | Pending[Response]:
        console, back = self._console, own_path(visit.form.text("next", HOME))
        if not console.keyring.asks_for_keys:
            return visit.done("No key is needed here.", back)
        secret = visit.form.text("key").strip()
        if not secret or len(secret) > _LONGEST_SECRET:
            visit.form.refuse("key", "enter an API key")
            return self._page(visit, back, 422)
        key = console.keyring.find(secret.encode("utf-8", "replace"))
        if key is None:
            if not console.patience.spend():
                visit.form.refuse("key", f"{TOO_MANY_WRONG_KEYS}: wait a moment")
                return self._page(visit, back, 429)
            why, sent = console.keyring.why_refused(secret.encode("utf-8", "replace"))
            log.warning("%s sent %s to the console", visit.visitor.address, sent)
            visit.form.refuse("key", why)
            return self._page(visit, back, 422)
        # Another session than before: no one can have planted this one.
        session = console.sessions.begin(key, visit.comes_by_tls, secret.encode("utf-8", "replace"))

        def signed_in(_none: None) -> Response:
            visit.visitor.session = session
            visit.visitor.is_new = True
            log.info("%s signed in to the console with the API key %s", visit.visitor.address, key.name)
            return visit.done(f"Signed in as {key.name}.", back)

        by = Actor(key.name, VIA)
        return console.broker.actions.record(by, ActionKind.CONSOLE_SIGN_IN).map(signed_in)

    def sign_out(self, visit: Visit) -> Response | Pending[Response]:
        console, session, name = self._console, visit.visitor.session, visit.visitor.session.key
        if name is None:
            return visit.done("No key is needed here.")

        def out(_none: None) -> Response:
            console.keyring.end_session(name, session.id)
            visit.visitor.session = console.sessions.begin()
            visit.visitor.is_new = True
            log.info("%s signed out of the console, of the API key %s", visit.visitor.address, name)
            return Response(303, b"", [(b"Location", f"{SIGN_IN}?why=out".encode()), (b"Cache-Control", b"no-store")])

        until = console.sessions.latest_end(session)
        return console.broker.keys.end_session(name, session.id, until, visit.actor).map(out)

    def _page(self, visit: Visit, back: str, status: int = 200, why: str | None = None) -> Response:
        # A strict cookie does not come along with a link from elsewhere; it does with one on our own page.
        site = visit.request.headers.get(b"sec-fetch-site", b"none")
        return visit.show(
            "sign_in.html", status=status, back=back, why=why, came_by_link=site not in (b"none", b"same-origin")
        )
