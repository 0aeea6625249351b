"""What a filter consists of: which messages a move or a peek means."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.errors import InvalidRequest
from penstock.faces.native.requests import Duration
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
