"""The one check of who sends a request, made when its headers are complete and before its body is read.

Where there are API keys, the caller must present one whose rules permit the request, or on some routes a signature by
one, which is verified when the body is there (`signatures.py`). Without keys everyone may do
everything, except web pages that are not this server's own. A browser lets any page send requests to any server, also
to one that only its own machine can reach; the page may not read the answer, but a message is claimed or a queue is
purged all the same. With DNS rebinding it may even read: the page's own name then leads to this server. Browsers say
where a request comes from, and no page can make them lie:

    Sec-Fetch-Site   to https and to loopback addresses, with every request
    Origin           with everything but a plain GET or HEAD
    Host             the name in the address, which is the page's own after DNS rebinding

Programs send a Host and none of the others.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.clock import Clock, system_clock
from penstock.edge.http import Request, Response
from penstock.edge.router import Client, Route
from penstock.errors import NotPermitted
from penstock.faces.answers import Error, json_response
from penstock.faces.callers import EVERYONE, KeyHolder
from penstock.faces.patience import Patience
from penstock.faces.permission import TOO_MANY_WRONG_KEYS, Gated, Permission, Refusal, Scope
from penstock.faces.signatures import Signatures
from penstock.hosts import HostNames, is_own, needs_no_dns, split
from penstock.keys import EVERY_QUEUE, Keyring, needed_rule

log = logging.getLogger(__name__)

_SHUT = json_response(403, Error("no one may use this route"))

FOREIGN_PAGE: Final = "a web page of another origin may not use a server without API keys"
UNTOLD_PAGE: Final = (
    "this browser does not say which page the request comes from, and it would change something: "
    "use the server by a loopback address, by https, or from its own pages"
)

_OURS = frozenset({b"same-origin", b"none"})
_READING = frozenset({"GET", "HEAD"})
_HOSTS_KEPT: Final = 256


class Origins:
    def __init__(self, names: HostNames | None = None, *, local: bool = True) -> None:
        """`names` are this server's own. With `local` only this machine reaches it, by a loopback address; else it has
        others, and any address is good."""
        self._names = names or HostNames()
        self._is_known = is_own if local else needs_no_dns
        # A client sends the same Host every time: each is judged once.
        self._judged: set[bytes | None] = {None, b""}

    def refusal(self, request: Request, *, page: bool, reads: bool, any_name: bool = False) -> str | None:
        """Why the request is refused, or None.

        `page` says that what is asked for may be shown to those who follow a link from elsewhere; `reads` that the
        request changes nothing. With `any_name`, the name by which the server is addressed does not matter.
        """
        headers = request.headers
        if any_name:
            return self._foreign_page(request, page, reads)
        # Every browser sends at least one of the last three, and few programs do.
        if (
            headers.get(b"host") in self._judged
            and b"sec-fetch-site" not in headers
            and b"origin" not in headers
            and b"accept-language" not in headers
        ):
            return None
        return self._foreign_name(headers.get(b"host")) or self._foreign_page(request, page, reads)

    def _foreign_name(self, host: bytes | None) -> str | None:
        """A name leads where its DNS server says; an address cannot be turned against its owner."""
        if host in self._judged or host is None:
            return None
        text = host.decode("latin-1").strip()
        parts = split(text)
        if parts is None or not (self._is_known(parts[0]) or self._names.include(*parts)):
            return (
                f"{text[:100]!r} is not a name of this server: without API keys it answers to its addresses and to the "
                "names in its setting allowed_hosts"
            )
        if len(self._judged) >= _HOSTS_KEPT:
            self._judged = {None, b""}
        self._judged.add(host)
        return None

    def _foreign_page(self, request: Request, page: bool, reads: bool) -> str | None:
        headers = request.headers
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if page and origin is None and request.method in _READING and _navigates(headers):
            return None
        if site is not None and site not in _OURS:
            return FOREIGN_PAGE
        if origin is not None:
            return None if self._is_own(origin, headers) else FOREIGN_PAGE
        if site is not None or not _is_browser(headers):
            return None
        # An old browser, or one that was led here by plain http.
        referer = headers.get(b"referer")
        if referer is None:
            return None if reads else UNTOLD_PAGE
        return None if (page and reads) or self._is_own(referer, headers) else FOREIGN_PAGE

    def _is_own(self, address: bytes, headers: dict[bytes, bytes]) -> bool:
        """The same name as in the Host, or one by which a proxy is reached."""
        scheme, _, rest = address.partition(b"://")
        authority = rest.partition(b"/")[0].lower()
        if scheme.lower() not in (b"http", b"https") or not authority:
            return False
        return authority == headers.get(b"host", b"").lower() or self._names.name_exactly(authority.decode("latin-1"))


class Guard:
    def __init__(
        self,
        keyring: Keyring,
        origins: Origins | None = None,
        patience: Patience | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._keyring = keyring
        self._origins = origins or Origins()
        self._patience = patience or Patience()
        self._signatures = Signatures(keyring, self._patience, clock)

    def __call__(self, request: Request, route: Route, client: Client) -> Response | None:
        """None lets the request pass, with its caller noted."""
        permission = route.permission
        if not isinstance(permission, Permission):
            return permission.admit(request, route, client) if isinstance(permission, Gated) else _SHUT
        if not self._keyring.asks_for_keys:
            return self._admit_everyone(request, route, permission)
        if permission.scope is Scope.ANYBODY:
            request.caller = EVERYONE
            return None
        secret = presented_secret(request)
        if secret is None:
            if permission.signed:
                refused = self._signatures.identify(request, client)
                return None if refused is None else permission.refused(refused.refusal, refused.why)
            return permission.refused(Refusal.NO_KEY, "an API key is needed")
        key = self._keyring.find(secret)
        if key is None:
            return self._refuse_unknown(permission, client, secret)
        caller = KeyHolder(key)
        request.caller = caller
        if permission.scope is Scope.ASKS_ITSELF:
            return None
        queue = EVERY_QUEUE if permission.scope is Scope.EVERY_QUEUE else request.params[0]
        # A queue called * cannot exist; asking for it must not be taken for a rule about all.
        if caller.may(permission.action, queue) and (queue != EVERY_QUEUE or permission.scope is Scope.EVERY_QUEUE):
            return None
        return permission.refused(Refusal.NOT_PERMITTED, str(NotPermitted(needed_rule(permission.action, queue))))

    def _admit_everyone(self, request: Request, route: Route, permission: Permission) -> Response | None:
        """Everyone but web pages of other origins. Where keys are asked for, no browser adds one by itself, so that a
        page which has none can do nothing."""
        # A GET that does not answer HEAD as well has side effects.
        why = self._origins.refusal(request, page=permission.scope is Scope.ANYBODY, reads=route.head)
        if why is not None:
            return permission.refused(Refusal.FOREIGN, why)
        request.caller = EVERYONE
        return None

    def _refuse_unknown(self, permission: Permission, client: Client, secret: bytes) -> Response:
        if not self._patience.spend():
            return permission.refused(Refusal.SLOW_DOWN, TOO_MANY_WRONG_KEYS)
        why, sent = self._keyring.why_refused(secret)
        log.warning("%s sent %s", client.address(), sent)
        return permission.refused(Refusal.UNKNOWN_KEY, why)


def presented_secret(request: Request) -> bytes | None:
    headers = request.headers
    secret = headers.get(b"x-bv-api-key")
    if secret is None:
        scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
    return secret.strip() or None


def _navigates(headers: dict[bytes, bytes]) -> bool:
    """Somebody follows a link, in a window and not in a frame."""
    return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"


def _is_browser(headers: dict[bytes, bytes]) -> bool:
    return b"accept-language" in headers and headers.get(b"user-agent", b"").startswith(b"Mozilla/")
