"""API keys: list, create, revoke. Only who may administer every queue may do it."""

from __future__ import annotations

from msgspec import Struct

from penstock import keys
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.faces.answers import json_response
from penstock.faces.media import wants_json
from penstock.faces.native.requests import answered, decoder
from penstock.faces.permission import Permission, Scope
from penstock.keys import Keyring
from penstock.model import CreatedKey, Key
from penstock.pending import Pending

_BODY = BodyRule(64 * 1024)


class CreateKey(Struct, forbid_unknown_fields=True):
    name: str
    rules: list[str]


_read_create = decoder(CreateKey)


def key_routes(broker: Broker, keyring: Keyring) -> list[Route]:
    face = _Keys(broker, keyring)
    admin = Permission("admin", Scope.EVERY_QUEUE)
    return [
        Route("GET", "/v1/keys", answered(face.list), head=True, permission=admin),
        Route("POST", "/v1/keys", answered(face.create), _BODY, permission=admin),
        Route("DELETE", "/v1/keys/{name}", answered(face.revoke), permission=admin),
    ]


class _Keys:
    def __init__(self, broker: Broker, keyring: Keyring) -> None:
        self._broker = broker
        self._keyring = keyring

    def list(self, _request: Request) -> Pending[Response]:
        return self._broker.keys.list().map(lambda found: json_response(200, {"keys": [_shown(key) for key in found]}))

    def create(self, request: Request) -> Pending[Response]:
        """The secret is in this answer and nowhere else."""
        wants_json(request)
        asked = _read_create(request.body)
        name, rules = keys.check_name(asked.name), keys.check_rules(asked.rules)
        secret = keys.mint()

        def created(made: CreatedKey) -> Response:
            # Before the answer: its reader may rely on it.
            self._keyring.admit(made.key)
            warning = {"warning": keys.FIRST_KEY} if made.first else {}
            return json_response(201, {**_shown(made.key), "secret": secret, **warning})

        return self._broker.keys.create(name, self._keyring.digest(secret.encode()), rules).map(created)

    def revoke(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def revoked(_none: None) -> Response:
            self._keyring.expel(name)
            return json_response(200, {"revoked": name})

        return self._broker.keys.revoke(name).map(revoked)


def _shown(key: Key) -> dict[str, object]:
    return {"name": key.name, "rules": key.rules, "created_at": key.created_at, "revoked_at": key.revoked_at}
