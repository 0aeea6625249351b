"""API keys: list, create, revoke. Only a key that may administer every queue may do it."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import keys, limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import UnsupportedMediaType
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import Op, Param, Tag, answer, body, text
from penstock.faces.media import require_json
from penstock.faces.native.requests import SMALL, VIA, Instant, route
from penstock.faces.permission import Permission, Scope, actor_of
from penstock.keys import Keyring
from penstock.model import CreatedKey, Key
from penstock.pending import Pending

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


class KeyView(Struct):
    name: str
    rules: tuple[Annotated[str, Meta(description="`queue|ACTION|NAME`")], ...]
    created_at: Instant
    revoked_at: Instant | None


class NewKey(KeyView):
    secret: Annotated[str, Meta(description="shown this once and kept nowhere")]
    aws_access_key_id: Annotated[str, Meta(description="for clients that sign as AWS does: the name of the key")]
    aws_secret_access_key: Annotated[str, Meta(description="what they sign with; kept nowhere either")]
    warning: Annotated[
        str | UnsetType, Meta(description="with the first key alone: everybody needs one from now on")
    ] = UNSET


class KeyList(Struct):
    keys: list[KeyView]


class Revoked(Struct):
    revoked: str


_read_create = decoder(CreateKey)

_TAG = Tag("native keys", "Who may do what on which queues. Only a key for every queue may use these.")
_RULES = ["queue|post|orders-*"]
_EXAMPLE = {"name": "shop", "rules": _RULES, "created_at": 1_760_000_000_000, "revoked_at": None}
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
    body=body(CreateKey, {"name": "shop", "rules": _RULES}),
    answers={
        201: answer(
            "The key, and its secrets this once.",
            NewKey,
            {**_EXAMPLE, "secret": "psk_…", "aws_access_key_id": "shop", "aws_secret_access_key": "x0Pb…"},
        ),
        415: answer("The body is not JSON, or does not say so.", Error, {"error": str(UnsupportedMediaType())}),
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
        404: answer("There never was such a key.", Error, {"error": "there is no API key 'shop'"}),
    },
)


def key_routes(broker: Broker, keyring: Keyring) -> list[Route]:
    face = _Keys(broker, keyring)
    admin = Permission("admin", Scope.EVERY_QUEUE)
    return [
        route("GET", "/v1/keys", face.list, _LIST, admin, head=True),
        route("POST", "/v1/keys", face.create, _CREATE, admin, SMALL),
        route("DELETE", "/v1/keys/{name}", face.revoke, _REVOKE, admin),
    ]


class _Keys:
    def __init__(self, broker: Broker, keyring: Keyring) -> None:
        self._broker = broker
        self._keyring = keyring

    def list(self, _request: Request) -> Pending[Response]:
        return self._broker.keys.list().map(
            lambda found: json_response(200, KeyList([KeyView(*_fields(key)) for key in found]))
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
            aws = made.key.name, self._keyring.aws_secret(made.key)
            return json_response(201, NewKey(*_fields(made.key), secret, *aws, keys.FIRST_KEY if made.first else UNSET))

        digest = self._keyring.digest(secret.encode())
        return self._broker.keys.create(name, digest, rules, actor_of(request, VIA)).map(created)

    def revoke(self, request: Request) -> Pending[Response]:
        [name] = request.params

        def revoked(_none: None) -> Response:
            self._keyring.expel(name)
            return json_response(200, Revoked(name))

        return self._broker.keys.revoke(name, actor_of(request, VIA)).map(revoked)


def _fields(key: Key) -> tuple[str, tuple[str, ...], int, int | None]:
    return key.name, key.rules, key.created_at, key.revoked_at
