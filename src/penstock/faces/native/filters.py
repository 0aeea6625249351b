"""What a filter consists of: which messages a move or a peek means."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock import limits
from penstock.edge.http import Request
from penstock.errors import InvalidRequest
from penstock.faces.description import NumberParam, Param, text
from penstock.faces.native.requests import Duration, query_number
from penstock.model import Ages, JsonValue, MessageState, Selection, WantedAttribute
from penstock.selection import PATH_PATTERN, parse_path

Receives = Annotated[int, Meta(ge=0, le=limits.INT32_MAX)]


class FilterJson(Struct, forbid_unknown_fields=True):
    # Checked by `parse_path`, which says where a path goes wrong.
    path: Annotated[
        str,
        Meta(
            description=f'such as `$.order.lines[0]["unit price"]`, of at most {limits.PATH_STEPS} steps',
            extra_json_schema={"pattern": PATH_PATTERN, "maxLength": limits.PATH_LENGTH},
        ),
    ]
    value: Annotated[
        str | int | float | bool | None, Meta(description="what stands there: text, a number, a boolean or null")
    ]


class FilterAttribute(Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=limits.FILTER_TEXT_LENGTH)]
    value: Annotated[
        Annotated[str, Meta(min_length=0, max_length=limits.FILTER_TEXT_LENGTH)] | None,
        Meta(description="left out, it may have any value"),
    ] = None


class MoveFilter(Struct, forbid_unknown_fields=True):
    older_than_ms: Annotated[Duration | None, Meta(description="sent at least this long ago")] = None
    newer_than_ms: Annotated[Duration | None, Meta(description="sent more recently than this")] = None
    min_receives: Receives | None = None
    max_receives: Receives | None = None
    content_type: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.CONTENT_TYPE_BYTES)] | None,
        Meta(description="without regard to case and parameters"),
    ] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.FILTER_TEXT_LENGTH)] | None,
        Meta(description="a part of the body, in UTF-8"),
    ] = None
    json: Annotated[FilterJson | None, Meta(description="the body is JSON, and a value of it is this")] = None
    state: Annotated[MessageState | None, Meta(description="one behind another of its group counts as ready")] = None
    attribute: Annotated[FilterAttribute | None, Meta(description="it has this attribute")] = None


def checked_json(path: str, value: str | float | bool | None, what: str) -> JsonValue:
    """`what` is how the caller has named the two. Raises InvalidRequest."""
    try:
        parse_path(path)
    except ValueError as error:
        raise InvalidRequest(f"{what}.path: {error}") from error
    if isinstance(value, str) and len(value) > limits.FILTER_TEXT_LENGTH:
        raise InvalidRequest(f"{what}.value has at most {limits.FILTER_TEXT_LENGTH} characters")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InvalidRequest(f"{what}.value is not a number of 64 bits")
    return JsonValue(path, value)


def selection_of(asked: MoveFilter) -> Selection:
    """Without its ages. Raises InvalidRequest."""
    json, attribute = asked.json, asked.attribute
    return Selection(
        min_receives=asked.min_receives,
        max_receives=asked.max_receives,
        content_type=asked.content_type,
        text=asked.text,
        json=None if json is None else checked_json(json.path, json.value, "filter.json"),
        state=asked.state,
        attribute=None if attribute is None else WantedAttribute(attribute.name, attribute.value),
    )


def ages_of(asked: MoveFilter) -> Ages:
    return Ages(asked.older_than_ms, asked.newer_than_ms)


# The same as parameters of a query.
_OLDER = NumberParam("older_than_ms", 0, limits.DURATION_MS, "Only messages sent at least this long ago.")
_NEWER = NumberParam("newer_than_ms", 0, limits.DURATION_MS, "Only messages sent more recently than this.")
_LEAST = NumberParam("min_receives", 0, limits.INT32_MAX, "Only messages received at least this often.")
_MOST = NumberParam("max_receives", 0, limits.INT32_MAX, "Only messages received at most this often.")
_CONTENT_TYPE = Param(
    "content_type",
    text(minLength=1, maxLength=limits.CONTENT_TYPE_BYTES),
    "Only messages of this media type, without regard to case and parameters.",
)
_TEXT = Param("text", text(minLength=1, maxLength=limits.FILTER_TEXT_LENGTH), "A part of the body, in UTF-8.")
_PATH = Param(
    "json_path",
    text(pattern=PATH_PATTERN, maxLength=limits.PATH_LENGTH),
    "The body is JSON and has `json_value` at this path, such as `$.order.lines[0]`.",
)
_VALUE = Param(
    "json_value",
    text(maxLength=limits.FILTER_TEXT_LENGTH),
    "Text, a number, a boolean or null as JSON; what is not JSON is a text.",
)
_STATE = Param("state", text(enum=[state.value for state in MessageState]), "Only messages in this state.")
_ATTRIBUTE = Param(
    "attribute", text(minLength=1, maxLength=limits.FILTER_TEXT_LENGTH), "Only messages with this attribute."
)
_ATTRIBUTE_VALUE = Param(
    "attribute_value",
    text(maxLength=limits.FILTER_TEXT_LENGTH),
    "What that attribute is; left out, it may be anything.",
)
_NUMBERS = (_OLDER, _NEWER, _LEAST, _MOST)
FILTER = (*_NUMBERS, _CONTENT_TYPE, _TEXT, _PATH, _VALUE, _STATE, _ATTRIBUTE, _ATTRIBUTE_VALUE)


def query_filter(request: Request) -> MoveFilter | None:
    """None where the query asks for none. Raises InvalidRequest."""
    asked = request.query_params()
    if asked.keys().isdisjoint([param.name for param in FILTER]):
        return None
    given: dict[str, object] = {one.name: query_number(request, one) for one in _NUMBERS if one.name in asked}
    given |= {one.name: asked[one.name] for one in (_CONTENT_TYPE, _TEXT, _STATE) if one.name in asked}
    if (_PATH.name in asked) != (_VALUE.name in asked):
        raise InvalidRequest("json_path and json_value go together")
    if _PATH.name in asked:
        json = checked_json(asked[_PATH.name], _json_value(asked[_VALUE.name]), "json")
        given["json"] = {"path": json.path, "value": json.value}
    if _ATTRIBUTE.name in asked:
        given["attribute"] = {"name": asked[_ATTRIBUTE.name], "value": asked.get(_ATTRIBUTE_VALUE.name)}
    elif _ATTRIBUTE_VALUE.name in asked:
        raise InvalidRequest("attribute_value goes with attribute")
    try:
        return msgspec.convert(given, MoveFilter)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"the filter is not right: {error}") from error


def _json_value(given: str) -> str | int | float | bool | None:
    try:
        value: object = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return given
    if value is None or isinstance(value, str | int | float):
        return value
    raise InvalidRequest("json_value is text, a number, a boolean or null")
