"""API keys: list, create, update, rotate, retire, revoke. Only a key that may administer every queue may do it."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import keys, limits
from penstock.broker import Broker
from penstock.durations import LATEST_INSTANT
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import KeyHasTwoSecrets, KeyNotFound, KeyRevoked, UnsupportedMediaType
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import Op, Param, Tag, answer, body, text
from penstock.faces.media import require_json
from penstock.faces.native.requests import SMALL, VIA, Duration, Instant, route
from penstock.faces.permission import Permission, Scope, actor_of
from penstock.keys import Keyring
from penstock.model import CreatedKey, Key, KeyState
from penstock.pending import Pending

_Expiry: TypeAlias = (
    Annotated[
        int,
        Meta(ge=1, le=LATEST_INSTANT, description="milliseconds since 1970", extra_json_schema={"format": "int64"}),
    ]
    | None
)
_RULE = rf"^queue\|({'|'.join(keys.ACTIONS)}|\*)\|{keys.GLOB}$"


class CreateKey(Struct, forbid_unknown_fields=True):
    # Checked by `penstock.keys`, which the command line asks as well.
    name: Annotated[
        str,
        Meta(
            extra_json_schema={
                "pattern": f"^{keys.NAME_CHARACTERS}+$",
                "minLength": 1,
                "maxLength": keys.NAME_LENGTH,
            }
        ),
    ]
    rules: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": _RULE})]],
        Meta(
            description="`queue|ACTION|NAME`, such as `queue|poll|orders-*`",
            extra_json_schema={"minItems": 1, "maxItems": limits.RULES},
        ),
    ]
    expires_at: Annotated[_Expiry, Meta(description="when it expires; never, if that is null")] = None


class UpdateKey(Struct, forbid_unknown_fields=True):
    expires_at: Annotated[_Expiry, Meta(description="when it expires; never, if that is null")]


class RotateKey(Struct, forbid_unknown_fields=True):
    grace_ms: Annotated[
        Duration | None, Meta(description="how long the old secret is good as well; until it is retired, if null")
    ] = None


class OldSecretView(Struct):
    until: Annotated[Instant | None, Meta(description="when it ends by itself; null if it is to be retired")]
    last_used_at: Instant | None


class KeyView(Struct):
    name: str
    rules: tuple[Annotated[str, Meta(description="`queue|ACTION|NAME`")], ...]
    created_at: Instant
    revoked_at: Instant | None
    expires_at: Annotated[Instant | None, Meta(description="from then on it is refused; null for never")]
    state: Annotated[KeyState, Meta(description="what it is worth now")]
    last_used_at: Annotated[
        Instant | None, Meta(description="by any of its secrets; a use may be told a minute late, or two")
    ]
    rotated_at: Annotated[Instant | None, Meta(description="when it was given its present secret, if that is another")]
    old_secret: Annotated[OldSecretView | None, Meta(description="the one before, while it is good as well")]


class KeyWithSecrets(KeyView):
    secret: Annotated[str, Meta(description="shown this once and kept nowhere")]
    aws_access_key_id: Annotated[str, Meta(description="for clients that sign as AWS does: the name of the key")]
    aws_secret_access_key: Annotated[str, Meta(description="what they sign with; kept nowhere either")]


class NewKey(KeyWithSecrets):
    warning: Annotated[
        str | UnsetType, Meta(description="with the first key alone: everybody needs one from now on")
    ] = UNSET


class KeyList(Struct):
    keys: list[KeyView]


class Revoked(Struct):
    revoked: str


_read_create = decoder(CreateKey)
_read_update = decoder(UpdateKey)
_read_rotate = decoder(RotateKey)

_TAG = Tag("native keys", "Who may do what on which queues. Only a key for every queue may use these.")
_RULES = ["queue|post|orders-*"]
_EXAMPLE = {
    "name": "shop",
    "rules": _RULES,
    "created_at": 1_760_000_000_000,
    "revoked_at": None,
    "expires_at": 1_767_776_000_000,
    "state": "in force",
    "last_used_at": 1_760_000_600_000,
    "rotated_at": None,
    "old_secret": None,
}
_ROTATED = {
    **_EXAMPLE,
    "rotated_at": 1_760_000_700_000,
    "old_secret": {"until": 1_760_087_100_000, "last_used_at": 1_760_000_600_000},
}
_SECRETS = {"secret": "psk_…", "aws_access_key_id": "shop", "aws_secret_access_key": "x0Pb…"}
_UNKNOWN = answer("There never was such a key.", Error, {"error": str(KeyNotFound("shop"))})
_NOT_JSON = answer("The body is not JSON, or does not say so.", Error, {"error": str(UnsupportedMediaType())})
_NAME = Param("name", text(minLength=1), "The name of the key.", where="path", example="shop")

_LIST = Op(
    id="listKeys",
    tag=_TAG,
    summary="List keys",
    description="Revoked ones too, in the order of their creation. Never a secret.",
    answers={200: answer("The keys.", KeyList, {"keys": [_EXAMPLE]})},
)
_CREATE = Op(
    id="createKey",
    tag=_TAG,
    summary="Create a key",
    description="From the first key on, every request to every API needs one: at once at this server, within a second "
    "at every other one on the store.",
    body=body(CreateKey, {"name": "shop", "rules": _RULES, "expires_at": 1_767_776_000_000}),
    answers={
        201: answer(
            "The key, and its secrets this once.",
            NewKey,
            {**_EXAMPLE, **_SECRETS},
        ),
        415: _NOT_JSON,
        409: answer(
            "The name is taken, perhaps by a revoked key.",
            Error,
            {"error": "an API key named 'shop' already exists or was revoked"},
        ),
    },
)
_REVOKE = Op(
    id="revokeKey",
    tag=_TAG,
    summary="Revoke a key",
    description="For good. Revoking again is not an error.",
    parameters=(_NAME,),
    answers={
        200: answer("It is refused from now on.", Revoked, {"revoked": "shop"}),
        404: _UNKNOWN,
    },
)
_UPDATE = Op(
    id="updateKey",
    tag=_TAG,
    summary="Change when a key expires",
    description="Also for a key that has expired, which is good again then.",
    parameters=(_NAME,),
    body=body(UpdateKey, {"expires_at": 1_767_776_000_000}),
    answers={
        200: answer("The key.", KeyView, _EXAMPLE),
        404: _UNKNOWN,
        409: answer("It was revoked, which is for good.", Error, {"error": str(KeyRevoked("shop"))}),
        415: _NOT_JSON,
    },
)
_ROTATE = Op(
    id="rotateKey",
    tag=_TAG,
    summary="Rotate the secret of a key",
    description="The key has another secret from now on, and another one to sign with. The old ones are good as well: "
    "for `grace_ms`, or until they are retired.",
    parameters=(_NAME,),
    body=body(RotateKey, {"grace_ms": 86_400_000}, required=False),
    answers={
        200: answer("The key, and its new secrets this once.", KeyWithSecrets, {**_ROTATED, **_SECRETS}),
        404: _UNKNOWN,
        409: answer("It has two secrets already, or was revoked.", Error, {"error": str(KeyHasTwoSecrets("shop"))}),
    },
)
_RETIRE = Op(
    id="retireSecret",
    tag=_TAG,
    summary="Retire the old secret of a key",
    description="Before its time. Where there is none, nothing changes.",
    parameters=(_NAME,),
    answers={
        200: answer("The key. Its old secret is refused from now on.", KeyView, _EXAMPLE),
        404: _UNKNOWN,
        409: answer("It was revoked, which is for good.", Error, {"error": str(KeyRevoked("shop"))}),
    },
)


def key_routes(broker: Broker, keyring: Keyring) -> list[Route]:
    face, one = _Keys(broker, keyring), "/v1/keys/{name}"
    admin = Permission("admin", Scope.EVERY_QUEUE)
    return [
        route("GET", "/v1/keys", face.list, _LIST, admin, head=True),
        route("POST", "/v1/keys", face.create, _CREATE, admin, SMALL),
        route("PATCH", one, face.update, _UPDATE, admin, SMALL),
        route("POST", f"{one}/rotate", face.rotate, _ROTATE, admin, SMALL),
        route("POST", f"{one}/retire", face.retire, _RETIRE, admin, SMALL),
        route("DELETE", one, face.revoke, _REVOKE, admin),
    ]


class _Keys:
    def __init__(self, broker: Broker, keyring: Keyring) -> None:
        self._broker = broker
        self._keyring = keyring

    def list(self, _request: Request) -> Pending[Response]:
        return self._broker.keys.list().map(
            lambda found: json_response(200, KeyList([KeyView(*self._fields(key)) for key in found]))
        )

    def create(self, request: Request) -> Pending[Response]:
        """The secrets are in this answer and nowhere else."""
        require_json(request)
        asked = _read_create(request.body)
        name, rules = keys.check_name(asked.name), keys.check_rules(asked.rules)
        secret = keys.mint()

        def created(made: CreatedKey) -> Response:
            # Before the answer: its reader may rely on it.
            self._keyring.admit(made.key)
            told = *self._with_secrets(made.key, secret), keys.FIRST_KEY if made.first else UNSET
            return json_response(201, NewKey(*told))

        digest = self._keyring.digest(secret.encode())
        return self._broker.keys.create(name, digest, rules, asked.expires_at, actor_of(request, VIA)).map(created)

    def update(self, request: Request) -> Pending[Response]:
        require_json(request)
        [name] = request.params
        asked = _read_update(request.body)
        return self._broker.keys.update(name, asked.expires_at, actor_of(request, VIA)).map(self._changed)

    def rotate(self, request: Request) -> Pending[Response]:
        """The secrets are in this answer and nowhere else."""
        [name] = request.params
        asked = _read_rotate(request.body or b"{}")
        secret = keys.mint()

        def rotated(key: Key) -> Response:
            self._keyring.admit(key)
            return json_response(200, KeyWithSecrets(*self._with_secrets(key, secret)))

        digest = self._keyring.digest(secret.encode())
        return self._broker.keys.rotate(name, digest, asked.grace_ms, actor_of(request, VIA)).map(rotated)

    def retire(self, request: Request) -> Pending[Response]:
        [name] = request.params

        return self._broker.keys.retire(name, actor_of(request, VIA)).map(self._changed)

    def revoke(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def revoked(_none: None) -> Response:
            self._keyring.expel(name)
            return json_response(200, Revoked(name))

        return self._broker.keys.revoke(name, actor_of(request, VIA)).map(revoked)

    def _changed(self, key: Key) -> Response:
        self._keyring.admit(key)
        return json_response(200, KeyView(*self._fields(key)))

    def _fields(self, key: Key) -> Any:
        now = self._keyring.now()
        old = key.old_secret(now)
        return (
            key.name,
            key.rules,
            key.created_at,
            key.revoked_at,
            key.expires_at,
            key.state(now),
            self._keyring.last_used_at(key),
            key.rotated_at,
            None if old is None else OldSecretView(old.until, self._keyring.last_used_at(old)),
        )

    def _with_secrets(self, key: Key, secret: str) -> Any:
        return *self._fields(key), secret, key.name, self._keyring.aws_secret(key)
