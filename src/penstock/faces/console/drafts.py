"""A message as a form has it: for those who send one, and for those who edit one before it is sent again."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import partial
from typing import Any, Final

import msgspec

from penstock import durations
from penstock.errors import CallerError, InvalidRequest
from penstock.faces.bodies import unreadable
from penstock.faces.console.bodies import is_json_type, is_plain, why_no_json
from penstock.faces.console.forms import Form
from penstock.faces.native.send import SendMessage, draft_of
from penstock.model import Draft, Message

BASE64: Final = "base64"
_read_attributes = msgspec.json.Decoder(dict[str, str]).decode


def read_draft(form: Form) -> Draft | None:
    """By the checks of the native API; None where something is wrong, which is noted with its field."""
    is_base64 = form.text("written") == BASE64
    given: dict[str, Any] = {}
    for name in ("content_type", "group", "dedup_id"):
        if form.text(name).strip():
            given[name] = form.read(name, partial(_checked, name))
    if form.text("attributes").strip():
        given["attributes"] = form.read("attributes", _attributes)
    if form.text("delay").strip():
        given["delay_ms"] = form.read("delay", _delay)
    draft = form.read("body", lambda text: draft_of(_with_body(text, is_base64)))
    if draft is None or form.errors:
        return None
    if is_json_type(given.get("content_type")):
        why = why_no_json(draft.body)
        if why is not None:
            form.refuse("body", f"the content type says JSON, and this is not JSON: {why}")
            return None
    return draft_of(msgspec.structs.replace(_with_body(form.text("body"), is_base64), **given))


def fields_of(message: Message) -> Form:
    """What a form about a message has in it at first."""
    as_text = is_plain(message.body)
    fields = {
        "body": message.body.decode() if as_text else b64encode(message.body).decode(),
        "written": "text" if as_text else BASE64,
        "content_type": message.content_type or "",
        "attributes": attributes_text(message.attributes or {}),
        "group": message.group or "",
    }
    return Form({name: [value] for name, value in fields.items()})


def attributes_text(attributes: dict[str, str]) -> str:
    """As JSON, in which what cannot be seen is written out."""
    if not attributes:
        return ""
    text = json.dumps(attributes, ensure_ascii=False, indent=2)
    return text if is_plain(text.encode("utf-8", "replace")) else json.dumps(attributes, indent=2)


def _with_body(text: str, is_base64: bool) -> SendMessage:
    return SendMessage(body_base64="".join(text.split())) if is_base64 else SendMessage(body=text)


def _checked(name: str, value: object) -> Any:
    """A value as the native API takes it in a field of a message."""
    message = _converted({name: value, "body": ""})
    draft_of(message)
    return getattr(message, name)


def _converted(fields: dict[str, object]) -> SendMessage:
    try:
        return msgspec.convert(fields, SendMessage)
    except msgspec.ValidationError as error:
        raise unreadable("this does", SendMessage, error) from error


def _attributes(text: str) -> dict[str, str]:
    try:
        read = _read_attributes(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequest(f'attributes are a JSON object of texts, such as {{"kind": "test"}}: {error}') from error
    return dict(_checked("attributes", read) or {})


def _delay(text: str) -> int:
    try:
        delay_ms = durations.parse_duration(text)
    except (ValueError, ArithmeticError) as error:
        raise InvalidRequest("write it like 30s, 5m, 2h or 1d") from error
    return int(_checked("delay_ms", delay_ms))


def read_lines(data: bytes, each: str, most: int) -> list[Draft]:
    """A message of each line that is not blank: its body, or a message as the native API takes it. The error names
    the first line that is wrong."""
    drafts: list[Draft] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.strip()
        if not text:
            continue
        if len(drafts) == most:
            raise InvalidRequest(f"line {number}: at most {most:,} messages may come at once")
        try:
            drafts.append(_body_of_line(text) if each == "body" else _message_of_line(text))
        except CallerError as error:
            raise InvalidRequest(f"line {number}: {error}") from error
    if not drafts:
        raise InvalidRequest("there is no message in it")
    return drafts


def _body_of_line(text: bytes) -> Draft:
    why = why_no_json(text)
    if why is not None:
        raise InvalidRequest(f"this is not JSON: {why}")
    return draft_of(SendMessage(body=text.decode(), content_type="application/json"))


_decode_message = msgspec.json.Decoder(SendMessage).decode


def _message_of_line(text: bytes) -> Draft:
    try:
        message = _decode_message(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable("it does", SendMessage, error) from error
    return draft_of(message)
