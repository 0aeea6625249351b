"""API keys: who may do what on which queues."""

from __future__ import annotations

import logging
from typing import Final

from penstock import keys, limits
from penstock.durations import duration_within, parse_expiry
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, KeyExists, KeyNotFound
from penstock.faces.callers import KeyHolder
from penstock.faces.console.console import Console
from penstock.faces.console.forms import Form
from penstock.faces.console.gate import Needs, On, Visitor
from penstock.faces.console.rendering import instant
from penstock.faces.console.visit import Visit, route
from penstock.model import ActionKind, CreatedKey, Key, KeyState
from penstock.pending import Pending, chained, resolved

log = logging.getLogger(__name__)

PAGE: Final = "/console/keys"
_RULE_ACTIONS: Final = (
    ("*", "everything"),
    ("post", "post: send"),
    ("poll", "poll: claim, look at and finish messages"),
    ("get_status", "get_status: see counts and settings"),
    ("admin", "admin: create, change and delete queues"),
)
_LOCKED_OUT: Final = (
    "the first key must be able to administer everything, as queue|*|* can: from now on every request needs a key, and "
    "no one could make another one here or through an API"
)


def key_routes(console: Console) -> list[Route]:
    pages = _Keys(console)
    admin = Needs("admin", On.EVERY_QUEUE)
    return [
        route(console, "GET", PAGE, pages.list, admin),
        route(console, "POST", PAGE, pages.create, admin),
        route(console, "POST", "/console/keys/{name}/update", pages.update, admin),
        route(console, "POST", "/console/keys/{name}/rotate", pages.rotate, admin),
        route(console, "POST", "/console/keys/{name}/retire", pages.retire, admin),
        route(console, "POST", "/console/keys/{name}/revoke", pages.revoke, admin),
    ]


class _Keys:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._broker = console.broker
        self._keyring = console.keyring

    def list(self, visit: Visit) -> Pending[Response]:
        """With a question in the query, also its answer: may this key do that?"""
        return self._page(visit)

    def create(self, visit: Visit) -> Pending[Response]:
        """The secret is in this answer and nowhere else, so nothing is redirected."""
        if visit.form.has("add"):
            return self._add_rule(visit)
        name = visit.form.read("name", lambda text: keys.check_name(text.strip()))
        rules = visit.form.read("rules", _rules)
        expires_at = visit.form.read("expires", self._expiry)
        if rules is not None and self._locks_out(visit, rules):
            visit.form.refuse("rules", _LOCKED_OUT)
        if name is None or rules is None or visit.form.errors:
            return self._page(visit, 422)
        secret = keys.mint()

        def created(made: CreatedKey) -> Pending[Response]:
            self._keyring.admit(made.key)
            if not made.first:
                return resolved(shown(made))
            # From now on everybody needs a key: the person who has made the first one goes on with it.
            self._sign_in(visit, made.key)
            return self._broker.actions.record(visit.actor, ActionKind.CONSOLE_SIGN_IN).map(lambda _none: shown(made))

        def shown(made: CreatedKey) -> Response:
            return visit.show(
                "key_made.html",
                key=made.key,
                secret=secret,
                aws_secret=self._keyring.aws_secret(made.key),
                warning=keys.FIRST_KEY if made.first else None,
                rotated=False,
                may_return=visit.may("admin"),
            )

        def answer(made: CreatedKey | None) -> Pending[Response]:
            return self._page(visit, 422) if made is None else created(made)

        def refused(error: Exception) -> None:
            if not isinstance(error, KeyExists):
                raise error
            visit.form.refuse("name", str(error))

        asked = self._broker.keys.create(name, self._keyring.digest(secret.encode()), rules, expires_at, visit.actor)
        return chained(asked.map(_whole, refused), answer)

    def _add_rule(self, visit: Visit) -> Pending[Response]:
        """Nothing is made yet: the page comes back with one more rule in its field."""
        form = visit.form
        queue = form.text("rule_queue").strip()
        added = form.read("rule_queue", lambda _text: keys.check_rules([f"queue|{form.text('rule_action')}|{queue}"]))
        if added is None:
            return self._page(visit, 422)
        before = [
            line.strip() for line in form.text("rules").splitlines() if line.strip() and line.strip() not in added
        ]
        visit.form = Form({**form.texts, "rules": ["\n".join([*before, *added])]}, errors=form.errors)
        return self._page(visit)

    def _locks_out(self, visit: Visit, rules: tuple[str, ...]) -> bool:
        """Whether no one could administer the server through it any more, and that is not what was asked for."""
        is_first = not self._keyring.asks_for_keys
        return is_first and not visit.form.has("without_admin") and not keys.permits(rules, "admin", keys.EVERY_QUEUE)

    def _sign_in(self, visit: Visit, key: Key) -> None:
        session = self._console.sessions.begin(key, visit.comes_by_tls)
        visit.visitor = Visitor(KeyHolder(key), session, visit.visitor.address, is_new=True)
        log.info("%s made the first API key, %s, and is signed in with it", visit.visitor.address, key.name)

    def update(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params
        expires_at = visit.form.read("expires", self._expiry)
        if visit.form.errors:
            visit.form = Form(errors={f"change-{name}": visit.form.errors["expires"]})
            return self._page(visit, 422)

        def updated(key: Key) -> Response:
            self._keyring.admit(key)
            when = "never expires" if key.expires_at is None else f"expires on {instant(key.expires_at)}"
            return visit.done(f"The key {name} {when}.", PAGE)

        return self._broker.keys.update(name, expires_at, visit.actor).map(updated)

    def rotate(self, visit: Visit) -> Pending[Response]:
        """The secret is in this answer and nowhere else, so nothing is redirected."""
        [name] = visit.params
        grace_ms = visit.form.read("grace", _grace)
        if visit.form.errors:
            visit.form = Form(errors={f"change-{name}": visit.form.errors["grace"]})
            return self._page(visit, 422)
        secret = keys.mint()

        def rotated(key: Key) -> Response:
            self._keyring.admit(key)
            return visit.show(
                "key_made.html",
                key=key,
                secret=secret,
                aws_secret=self._keyring.aws_secret(key),
                warning=None,
                rotated=True,
                old=key.old_secret(self._console.clock()),
                may_return=visit.may("admin"),
            )

        return self._broker.keys.rotate(name, self._keyring.digest(secret.encode()), grace_ms, visit.actor).map(rotated)

    def retire(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params

        def retired(key: Key) -> Response:
            self._keyring.admit(key)
            return visit.done(f"The old secret of {name} is refused from now on.", PAGE)

        return self._broker.keys.retire(name, visit.actor).map(retired)

    def _expiry(self, text: str) -> int | None:
        try:
            return parse_expiry(text, self._console.clock()) if text.strip() else None
        except (ValueError, ArithmeticError) as error:
            raise InvalidRequest(str(error)) from error

    def revoke(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params
        if visit.form.text("confirm").strip() != name:
            visit.form.refuse(f"confirm-{name}", "to revoke a key, type its name")
            return self._page(visit, 422)

        def revoked(_none: None) -> Response:
            self._keyring.expel(name)
            return visit.done(f"The key {name} is revoked: it is refused from now on.", PAGE)

        return self._broker.keys.revoke(name, visit.actor).map(revoked)

    def _page(self, visit: Visit, status: int = 200) -> Pending[Response]:
        def page(found: list[Key]) -> Response:
            now = self._console.clock()
            admins = [
                key.name
                for key in found
                if key.state(now) is KeyState.IN_FORCE and keys.permits(key.rules, "admin", keys.EVERY_QUEUE)
            ]
            question = Form({name: [value] for name, value in visit.query.items()})
            return visit.show(
                "keys.html",
                status=status,
                keys=found,
                states={key.name: key.state(now).value for key in found},
                old_secrets={key.name: key.old_secret(now) for key in found},
                last_used_at=self._keyring.last_used_at,
                actions=keys.ACTIONS,
                rule_actions=_RULE_ACTIONS,
                only_admin=admins[0] if len(admins) == 1 else None,
                may_go_without=_LOCKED_OUT in visit.form.errors.values(),
                question=question,
                verdict=_verdict(question, found, now),
            )

        return self._broker.keys.list().map(lambda found: page(list(found)))


def _whole(made: CreatedKey) -> CreatedKey | None:
    return made


def _rules(text: str) -> tuple[str, ...]:
    return keys.check_rules(line.strip() for line in text.splitlines() if line.strip())


def _grace(text: str) -> int | None:
    try:
        return duration_within(text, 0, limits.DURATION_MS) if text.strip() else None
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _verdict(question: Form, found: list[Key], now: int) -> dict[str, object] | None:
    """May this key do that? None where nothing was asked."""
    name, action, queue = (question.text(word).strip() for word in ("key", "action", "queue"))
    if not name and not queue:
        return None
    try:
        if action not in keys.ACTIONS:
            raise InvalidRequest(f"the action is one of {', '.join(keys.ACTIONS)}")
        if not queue:
            raise InvalidRequest("name a queue, or * for every queue")
        key = next((one for one in found if one.name == name), None)
        if key is None:
            raise KeyNotFound(name)
    except (InvalidRequest, KeyNotFound) as error:
        return {"permitted": False, "text": str(error), "rule": None}
    rule = keys.permitting_rule(key.rules, action, queue)
    if key.revoked_at is not None:
        return {"permitted": False, "text": f"No: {name} was revoked.", "rule": None}
    if key.state(now) is KeyState.EXPIRED:
        return {"permitted": False, "text": f"No: {name} has expired.", "rule": None}
    if rule is None:
        return {"permitted": False, "text": f"No: no rule of {name} is about {action} on {queue}.", "rule": None}
    return {"permitted": True, "text": f"Yes: {name} may {action} on {queue}, permitted by", "rule": rule}
