"""The one check of who sends a request, made when the headers of a request are complete and before its body is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache

from penstock.edge.http import Request, Response
from penstock.edge.router import Client, Route
from penstock.errors import NotPermitted
from penstock.faces.answers import Error, json_response
from penstock.faces.origin import Origins
from penstock.faces.permission import Permission, Refusal, Scope
from penstock.keys import EVERY_QUEUE, Keyring, needed_rule, permits
from penstock.model import Key
from penstock.timings import Timings

log = logging.getLogger(__name__)

_SHUT = json_response(403, Error("no one may use this route"))
_SLOW_DOWN = json_response(429, Error("too many wrong API keys"), (b"Retry-After", b"1"))


class Everyone:
    """The caller while no API key was ever made."""

    rules: tuple[str, ...] | None = None

    def may(self, action: str, queue: str) -> bool:  # noqa: ARG002
        return True


class KeyHolder:
    def __init__(self, key: Key) -> None:
        self.rules: tuple[str, ...] | None = key.rules

    def may(self, action: str, queue: str) -> bool:
        return _permits(self.rules, action, queue)


@lru_cache(8192)
def _permits(rules: tuple[str, ...] | None, action: str, queue: str) -> bool:
    return permits(rules, action, queue)


_EVERYONE = Everyone()


class Guard:
    def __init__(
        self,
        keyring: Keyring,
        origins: Origins | None = None,
        timings: Timings = Timings(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keyring = keyring
        self._origins = origins or Origins()
        self._timings = timings
        self._monotonic = monotonic
        self._patience = timings.wrong_keys
        self._patience_at = monotonic()

    def __call__(self, request: Request, route: Route, client: Client) -> Response | None:
        """None lets the request pass, with its caller noted."""
        permission = route.permission
        if not isinstance(permission, Permission):
            return _SHUT
        if not self._keyring.asks_for_keys:
            return self._admit_everyone(request, route, permission)
        if permission.scope is Scope.ANYBODY:
            request.caller = _EVERYONE
            return None
        secret = presented_secret(request)
        if secret is None:
            return permission.refused(Refusal.NO_KEY, "an API key is needed")
        key = self._keyring.find(secret)
        if key is None:
            return self._refuse_unknown(permission, client)
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
        request.caller = _EVERYONE
        return None

    def _refuse_unknown(self, permission: Permission, client: Client) -> Response:
        """A bucket of patience for all callers together: guessing is hopeless anyway, but should not be cheap."""
        now, timings = self._monotonic(), self._timings
        regained = (now - self._patience_at) * timings.wrong_keys_per_second
        self._patience = min(timings.wrong_keys, self._patience + regained)
        self._patience_at = now
        if self._patience < 1:
            return _SLOW_DOWN
        self._patience -= 1
        log.warning("%s sent an unknown or revoked API key", client.address())
        return permission.refused(Refusal.UNKNOWN_KEY, "this API key is not known")


def presented_secret(request: Request) -> bytes | None:
    headers = request.headers
    secret = headers.get(b"x-bv-api-key")
    if secret is None:
        scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
    return secret.strip() or None
