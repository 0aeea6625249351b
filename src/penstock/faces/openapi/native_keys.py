"""API keys of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.errors import UnsupportedMediaType
from penstock.faces.native.keys import CreateKey
from penstock.faces.openapi import structs
from penstock.faces.openapi.parts import (
    Operation,
    Part,
    answer,
    body,
    instant,
    listed,
    maybe,
    parameter,
    record,
    schema,
    text,
)

TAG = "native keys"
TAGS: Mapping[str, str] = {TAG: "Who may do what on which queues. Only a key for every queue may use these."}

_RULE = r"^queue\|(post|poll|get_status|admin|\*)\|[A-Za-z0-9._:@*-]{1,255}$"
_KEY: Mapping[str, Part] = {
    "name": text(),
    "rules": listed(text("`queue|ACTION|NAME`")),
    "created_at": instant(),
    "revoked_at": maybe(instant()),
}
SCHEMAS: Mapping[str, Part] = {
    **structs.taken(
        CreateKey,
        {
            "name": {"pattern": "^[A-Za-z0-9._@-]+$", "minLength": 1, "maxLength": 100},
            "rules": {
                "items": text(pattern=_RULE),
                "minItems": 1,
                "maxItems": limits.RULES,
                "description": "`queue|ACTION|NAME`, such as `queue|poll|orders-*`",
            },
        },
    ),
    "Key": record(_KEY),
    "NewKey": record(
        {
            **_KEY,
            "secret": text("shown this once and kept nowhere"),
            "warning": text("with the first key alone: everybody needs one from now on"),
        },
        "warning",
    ),
}

_RULES = ["queue|post|orders-*"]
_EXAMPLE = {"name": "shop", "rules": _RULES, "created_at": 1_760_000_000_000, "revoked_at": None}
_NAME = parameter("path", "name", text(minLength=1), "The name of the key.", example="shop")

OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/keys": Operation(
        id="listKeys",
        tag=TAG,
        summary="List keys",
        description="Revoked ones too, in the order of their creation. Never a secret.",
        answers={200: answer("The keys.", record({"keys": listed(schema("Key"))}), {"keys": [_EXAMPLE]})},
    ),
    "POST /v1/keys": Operation(
        id="createKey",
        tag=TAG,
        summary="Create a key",
        description="From the first key on, every request to every API needs one: at once at this server, within a "
        "second at every other one on the store.",
        body=body(schema("CreateKey"), {"name": "shop", "rules": _RULES}),
        answers={
            201: answer("The key, and its secret this once.", schema("NewKey"), {**_EXAMPLE, "secret": "psk_…"}),
            415: answer(
                "The body is not JSON, or does not say so.", schema("Error"), {"error": str(UnsupportedMediaType())}
            ),
            409: answer("The name is or was used.", schema("Error"), {"error": "there is or was an API key 'shop'"}),
        },
    ),
    "DELETE /v1/keys/{name}": Operation(
        id="revokeKey",
        tag=TAG,
        summary="Revoke a key",
        description="For good. Revoking again is no error.",
        parameters=(_NAME,),
        answers={
            200: answer("It is refused from now on.", record({"revoked": text()}), {"revoked": "shop"}),
            404: answer("There never was such a key.", schema("Error"), {"error": "there is no API key 'shop'"}),
        },
    ),
}
