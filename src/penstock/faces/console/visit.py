"""One request to the console: who asks, what the form says, and the page that answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import CallerError, NotPermitted, TryAgain
from penstock.faces.answers import encode_json, error_response
from penstock.faces.console.forms import TOKEN, Form, read_form
from penstock.faces.console.gate import HOME, POLL, Needs, Visitor, cookies, is_fragment
from penstock.faces.console.rendering import environment
from penstock.faces.permission import Gated
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Actor
from penstock.pending import Pending

if TYPE_CHECKING:
    from penstock.faces.console.console import Console

log = logging.getLogger(__name__)

Handling: TypeAlias = "Callable[[Visit], Response | Pending[Response]]"

# What the log of actions calls the console.
VIA: Final = "console"
SMALL: Final = BodyRule(64 * 1024)
_NOTE: Final = "penstock_note"
_HEADERS: Final = (
    (b"Content-Type", b"text/html; charset=utf-8"),
    (
        b"Content-Security-Policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"same-origin"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Cache-Control", b"no-store"),
    (b"Vary", b"HX-Request"),
)
_TITLES: Final = {
    400: "This cannot be done",
    403: "Not permitted",
    404: "Not found",
    409: "Not as things are now",
    413: "Too large",
    429: "Too many wrong keys",
    500: "Something went wrong",
    501: "Not with this store",
    503: "The store does not answer",
}
STALE: Final = "this form is older than the session: go back, load the page again, and repeat it"


class Visit:
    def __init__(self, console: Console, request: Request, visitor: Visitor, form: Form | None = None) -> None:
        self.console = console
        self.request = request
        self.visitor = visitor
        self.form = form or Form()
        self.now = console.clock()

    @property
    def params(self) -> tuple[str, ...]:
        return self.request.params

    @property
    def query(self) -> dict[str, str]:
        return self.request.query_params()

    @property
    def is_fragment(self) -> bool:
        """Whether only the live part of the page is asked for."""
        return is_fragment(self.request)

    @property
    def comes_by_tls(self) -> bool:
        """Be it to a proxy: the browser says by itself where its form came from."""
        return self.console.by_tls or self.request.headers.get(b"origin", b"").startswith(b"https://")

    @property
    def actor(self) -> Actor:
        """Who has something done, for the log of actions."""
        return Actor(self.visitor.name, VIA)

    def may(self, action: str, queue: str = EVERY_QUEUE) -> bool:
        return self.visitor.may(action, queue)

    def require(self, action: str, queue: str = EVERY_QUEUE) -> None:
        """For handlers that find the queue in a form. Raises NotPermitted."""
        if not self.may(action, queue):
            raise NotPermitted(needed_rule(action, queue))

    def show(self, page: str, live: str | None = None, status: int = 200, **values: object) -> Response:
        """A page, or where a script asks for it, the part of the page that is alive. Both are templates."""
        name = live if live is not None and self.is_fragment else page
        return self._rendered(name, status, values)

    def json(self, value: object) -> Response:
        """Figures for a chart."""
        return Response(200, encode_json(value), ((b"Content-Type", b"application/json"), *_HEADERS[1:]))

    def done(self, text: str, to: str = HOME) -> Response:
        """A change was made: the browser goes on to another page, which says so."""
        sealed = self.console.sessions.seal_note(self.visitor.session, text)
        note = (b"Set-Cookie", self._cookie(_NOTE, sealed, "Max-Age=60"))
        where = to.encode("ascii")
        if self.is_fragment:
            return Response(204, b"", [(b"HX-Redirect", where), note, *_HEADERS[6:]])
        return Response(303, b"", [(b"Location", where), note, *_HEADERS[6:]])

    def failed(self, error: Exception) -> Response:
        """The page for an error, in the table that most faces share."""
        said = error_response(error)
        why = str(error) if isinstance(error, CallerError | TryAgain) or said.status != 500 else ""
        return self.refused(said.status, why, [one for one in said.headers if one[0] == b"Retry-After"])

    def refused(self, status: int, why: str, headers: list[tuple[bytes, bytes]] | None = None) -> Response:
        values = {"status": status, "title": _TITLES.get(status, "This cannot be done"), "why": why}
        response = self._rendered("error_part.html" if self.is_fragment else "error.html", status, values)
        return Response(status, response.body, [*response.headers, *(headers or ())])

    def set_session(self, response: Response) -> Response:
        """The response, with the cookie of the session that the visitor has now."""
        session = self.visitor.session
        cookie = self._cookie(self.console.sessions.cookie, self.console.sessions.seal(session))
        return Response(response.status, response.body, [*response.headers, (b"Set-Cookie", cookie)])

    def forget_session(self, response: Response) -> Response:
        cookie = self._cookie(self.console.sessions.cookie, "", "Max-Age=0")
        return Response(response.status, response.body, [*response.headers, (b"Set-Cookie", cookie)])

    def _cookie(self, name: str, value: str, *more: str) -> bytes:
        secure = ("Secure",) if self.console.by_tls or self.visitor.session.secure else ()
        parts = (f"{name}={value}", f"Path={HOME}", "HttpOnly", "SameSite=Strict", *secure, *more)
        return "; ".join(parts).encode()

    def _rendered(self, name: str, status: int, values: Mapping[str, object]) -> Response:
        headers: list[tuple[bytes, bytes]] = list(_HEADERS)
        note = None
        sealed = None if self.is_fragment else cookies(self.request).get(_NOTE)
        if sealed:
            note = self.console.sessions.unseal_note(self.visitor.session, sealed)
            headers.append((b"Set-Cookie", self._cookie(_NOTE, "", "Max-Age=0")))
        context: dict[str, Any] = {
            "visit": self,
            "may": self.may,
            "now": self.now,
            "token": self.console.sessions.token(self.visitor.session),
            "navigation": self.console.navigation(self),
            "asks_for_keys": self.console.keyring.asks_for_keys,
            "note": note,
            "form": self.form,
            **values,
        }
        return Response(status, environment().get_template(name).render(context).encode(), headers)


def route(
    console: Console,
    method: str,
    pattern: str,
    handling: Handling,
    needs: Needs,
    body: BodyRule = SMALL,
) -> Route:
    """A route of the console. GET changes nothing; whatever comes by POST has the token of its session."""
    reads = method == "GET"

    def handle(request: Request) -> Response | Pending[Response]:
        visit = Visit(console, request, request.caller)
        try:
            if not reads:
                visit.form = read_form(request)
                given = request.headers.get(b"x-csrf-token", b"").decode("latin-1") or visit.form.text(TOKEN)
                if not console.sessions.is_token(visit.visitor.session, given):
                    return _finished(visit, visit.refused(403, STALE))
            answer = handling(visit)
        except Exception as error:
            return _finished(visit, visit.failed(error))
        if isinstance(answer, Pending):
            return answer.map(_unchanged, visit.failed).map(partial(_finished, visit))
        return _finished(visit, answer)

    return Route(
        method, pattern, handle, body, head=reads, permission=Gated(partial(console.gate.admit, needs)), describe=None
    )


def _unchanged(response: Response) -> Response:
    return response


def _finished(visit: Visit, response: Response) -> Response:
    """Keep the session alive, if a person has caused this."""
    visitor = visit.visitor
    if visitor.is_new:
        return visit.set_session(response)
    if POLL in visit.request.headers:
        return response
    renewed = visit.console.sessions.renewed(visitor.session)
    if renewed is None:
        return response
    visitor.session = renewed
    return visit.set_session(response)
