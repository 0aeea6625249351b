"""What a form has sent: read within bounds, checked field by field, and shown again beside what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message as HeaderParser
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from penstock.edge.http import Request
from penstock.errors import CallerError, InvalidRequest
from penstock.faces.mqs.multipart import decode

T = TypeVar("T")

TOKEN: Final = "csrf"  # noqa: S105 - the name of a field
_FIELDS: Final = 200


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was chosen in a form."""

    name: str
    body: bytes


@dataclass(slots=True)
class Form:
    """`errors` says what is wrong, by the name of the field; under an empty name, with the form as a whole."""

    texts: Mapping[str, list[str]] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The last value, as it was sent."""
        given = self.texts.get(name)
        return given[-1] if given else default

    def list(self, name: str) -> list[str]:
        return list(self.texts.get(name, ()))

    def has(self, name: str) -> bool:
        return name in self.texts

    def read(self, name: str, check: Callable[[str], T]) -> T | None:
        """What `check` makes of a field; None where it refuses, which is noted with the field."""
        try:
            return check(self.text(name))
        except CallerError as error:
            self.errors.setdefault(name, str(error))
            return None

    def refuse(self, name: str, why: str) -> None:
        self.errors.setdefault(name, why)

    def error(self, name: str) -> str | None:
        return self.errors.get(name)


def whole_number(text: str, what: str, least: int, most: int) -> int:
    """A number of a form. Raises InvalidRequest."""
    given = text.strip()
    if not (given.isascii() and given.isdecimal() and len(given) <= 20):
        raise InvalidRequest(f"{what} must be a whole number")
    if not least <= int(given) <= most:
        raise InvalidRequest(f"{what} must be between {least} and {most}")
    return int(given)


def read_form(request: Request) -> Form:
    """Raises InvalidRequest for a body that is not a form."""
    kind = request.headers.get(b"content-type", b"").decode("latin-1")
    media = kind.partition(";")[0].strip().lower()
    if media == "multipart/form-data":
        return _read_multipart(request.body, kind)
    if media == "application/x-www-form-urlencoded" or not request.body:
        return Form(_read_pairs(request.body))
    raise InvalidRequest("a form is sent as application/x-www-form-urlencoded or multipart/form-data")


def _read_pairs(body: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError as error:
        raise InvalidRequest(f"the form cannot be read: it has more than {_FIELDS} fields or is not UTF-8") from error
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        texts.setdefault(name, []).append(_lines(value))
    return texts


def _read_multipart(body: bytes, kind: str) -> Form:
    boundary = _parameter(kind, "boundary", "content-type")
    if not boundary or len(boundary) > 70 or not boundary.isascii():
        raise InvalidRequest("the form does not say where its parts begin")
    try:
        parts = decode(body, boundary.encode(), _FIELDS)
    except InvalidRequest as error:
        raise InvalidRequest("the form cannot be read: it is not complete, or has too many parts") from error
    texts: dict[str, list[str]] = {}
    uploads: dict[str, Upload] = {}
    for headers, content in parts:
        said = headers.get(b"content-disposition", b"").decode("utf-8", "replace")
        name, file = _parameter(said, "name"), _parameter(said, "filename")
        if not name:
            raise InvalidRequest("a part of the form has no name")
        if file is None:
            try:
                texts.setdefault(name, []).append(_lines(content.decode()))
            except UnicodeDecodeError as error:
                raise InvalidRequest(f"{name[:80]} is not UTF-8") from error
        elif file or content:
            # Browsers send an empty part for a file that was not chosen.
            uploads[name] = Upload(file, content)
    return Form(texts, uploads)


def _lines(text: str) -> str:
    """Browsers end the lines of a field as HTTP does."""
    return text.replace("\r\n", "\n")


def _parameter(header: str, name: str, of: str = "content-disposition") -> str | None:
    parser = HeaderParser()
    parser[of] = header.replace("\r", " ").replace("\n", " ")
    found = parser.get_param(name, header=of)
    return found if isinstance(found, str) else None
