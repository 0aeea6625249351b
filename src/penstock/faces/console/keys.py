"""API keys: who may do what on which queues."""

from __future__ import annotations

from typing import Final

from penstock import keys
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, KeyExists, KeyNotFound
from penstock.faces.console.console import Console
from penstock.faces.console.forms import Form
from penstock.faces.console.gate import Needs, On
from penstock.faces.console.visit import Visit, route
from penstock.model import CreatedKey, Key
from penstock.pending import Pending, chained, resolved

PAGE: Final = "/console/keys"


def key_routes(console: Console) -> list[Route]:
    pages = _Keys(console)
    admin = Needs("admin", On.EVERY_QUEUE)
    return [
        route(console, "GET", PAGE, pages.list, admin),
        route(console, "POST", PAGE, pages.create, admin),
        route(console, "POST", "/console/keys/{name}/revoke", pages.revoke, admin),
    ]


class _Keys:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker
        self._keyring = console.keyring

    def list(self, visit: Visit) -> Pending[Response]:
        """With a question in the query, also its answer: may this key do that?"""
        return self._page(visit)

    def create(self, visit: Visit) -> Pending[Response]:
        """The secret is in this answer and nowhere else, so nothing is redirected."""
        name = visit.form.read("name", lambda text: keys.check_name(text.strip()))
        rules = visit.form.read("rules", _rules)
        if name is None or rules is None:
            return self._page(visit, 422)
        secret = keys.mint()

        def created(made: CreatedKey) -> Response:
            self._keyring.admit(made.key)
            return visit.show(
                "key_made.html",
                key=made.key,
                secret=secret,
                aws_secret=self._keyring.aws_secret(made.key),
                warning=keys.FIRST_KEY if made.first else None,
            )

        def answer(made: CreatedKey | None) -> Pending[Response]:
            return self._page(visit, 422) if made is None else resolved(created(made))

        def refused(error: Exception) -> None:
            if not isinstance(error, KeyExists):
                raise error
            visit.form.refuse("name", str(error))

        asked = self._broker.keys.create(name, self._keyring.digest(secret.encode()), rules, visit.actor)
        return chained(asked.map(_whole, refused), answer)

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
            question = Form({name: [value] for name, value in visit.query.items()})
            return visit.show(
                "keys.html",
                status=status,
                keys=found,
                actions=keys.ACTIONS,
                question=question,
                verdict=_verdict(question, found),
            )

        return self._broker.keys.list().map(lambda found: page(list(found)))


def _whole(made: CreatedKey) -> CreatedKey | None:
    return made


def _rules(text: str) -> tuple[str, ...]:
    return keys.check_rules(line.strip() for line in text.splitlines() if line.strip())


def _verdict(question: Form, found: list[Key]) -> dict[str, object] | None:
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
    if rule is None:
        return {"permitted": False, "text": f"No: no rule of {name} is about {action} on {queue}.", "rule": None}
    return {"permitted": True, "text": f"Yes: {name} may {action} on {queue}, permitted by", "rule": rule}
