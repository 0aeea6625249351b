"""AWS Signature Version 4: what a request says about its signature, and what the signature should be.

Pure functions over the parts of a request as they were sent. No key is looked up here, no clock is read, and a
`Signature` is only what a request says of itself. What is wrong with one is said in the words of AWS, because those are
what people look for when a client shows them.

    canonical request   method, path, query, signed headers and the hash of the body, in one fixed form
    scope               day/region/service/aws4_request
    string to sign      the algorithm, the instant, the scope and the hash of the canonical request
    signing key         the secret, hashed with each part of the scope
    signature           the string to sign, hashed with the signing key

A header that came on several lines is taken as the edge joins it, with a comma and a blank.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
# How far the clocks of a client and a server may be apart, and for how long an address may be signed.
SKEW_MS: Final = 15 * 60 * 1000
LONGEST_EXPIRES_S: Final = 7 * 24 * 60 * 60

NOTHING_PRESENTED: Final = "Request is missing Authentication Token"
UNKNOWN_KEY: Final = "The security token included in the request is invalid."
MISMATCH: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
WRONG_BODY_HASH: Final = "The provided 'x-amz-content-sha256' header does not match what was computed."

_OTHER_ALGORITHM: Final = "Unsupported AWS 'algorithm': only AWS4-HMAC-SHA256 is known."
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM: Final = "%Y%m%dT%H%M%SZ"
_STAMP = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_IN_QUERY = re.compile(r"(?:^|&)X-Amz-(?:Algorithm|Credential|Signature)=")
_SIGNATURE_FIELD: Final = b"X-Amz-Signature"
_QUERY_FIELDS: Final = (
    b"X-Amz-Algorithm",
    b"X-Amz-Credential",
    b"X-Amz-Date",
    b"X-Amz-Expires",
    b"X-Amz-SignedHeaders",
    _SIGNATURE_FIELD,
)
_HEADER_FIELDS: Final = (b"Credential", b"Signature", b"SignedHeaders")
_CREDENTIAL = re.compile(rb"[!-~]+")
_HEADER_NAMES = re.compile(rb"[!-:<-~]+(?:;[!-:<-~]+)*")
_LONGEST_DATE: Final = 64
# Anybody may send what is remembered here, as long as a header can be.
_LONGEST_REMEMBERED: Final = 1024
# Nothing to escape, and no segment that is empty or may be a dot.
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*/?")


class MalformedSignature(Exception):
    """A signature was presented in a form that cannot be read."""


class SigningTerms:
    """The part of a signature that a client repeats all day: who signs, for what, and which headers."""

    __slots__ = ("access_key_id", "day", "header_names", "region", "scope", "service", "terminator")

    def __init__(self, credential: bytes, signed_headers: bytes) -> None:
        if _CREDENTIAL.fullmatch(credential) is None or _HEADER_NAMES.fullmatch(signed_headers) is None:
            # In a query both may be anything, also what would be a line of its own in what is signed.
            raise MalformedSignature("Credential and SignedHeaders must be visible characters.")
        parts = credential.decode().split("/")
        if len(parts) != 5:
            raise MalformedSignature(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
                f"got {len(parts)}."
            )
        self.access_key_id, self.day, self.region, self.service, self.terminator = parts
        self.scope = credential.partition(b"/")[2]
        self.header_names = tuple(signed_headers.lower().split(b";"))


class Signature:
    """What a request says about its signature. An address that was signed beforehand has `expires_s`."""

    __slots__ = ("expires_s", "signed_at", "stamp", "terms", "value")

    def __init__(self, terms: SigningTerms, stamp: bytes, value: bytes, expires_s: int | None = None) -> None:
        self.terms = terms
        self.stamp = stamp
        self.signed_at = _instant(stamp)
        self.value = value
        self.expires_s = expires_s


# ---- reading ---------------------------------------------------------------------------------------------


def read_signature(headers: Mapping[bytes, bytes], query: str) -> Signature | None:
    """From the header Authorization or, for an address that was signed beforehand, from the query. None if neither
    has one. Raises MalformedSignature."""
    presented = headers.get(b"authorization", b"")
    if presented.startswith(b"AWS"):
        return _from_header(presented, headers)
    if query and _IN_QUERY.search(query):
        return _from_query(query)
    return None


def _from_header(presented: bytes, headers: Mapping[bytes, bytes]) -> Signature:
    algorithm, _, rest = presented.partition(b" ")
    if algorithm != ALGORITHM:
        raise MalformedSignature(_OTHER_ALGORITHM)
    fields: dict[bytes, bytes] = {}
    for part in rest.split(b","):
        name, equals, value = part.strip().partition(b"=")
        if not equals or name in fields:
            raise MalformedSignature("Invalid key=value pair in Authorization header.")
        fields[name] = value
    stamp = headers.get(b"x-amz-date") or _stamp_of_date(headers.get(b"date", b"")[:_LONGEST_DATE])
    lacks = [f"'{name.decode()}' parameter" for name in _HEADER_FIELDS if name not in fields]
    if not stamp:
        lacks.append("existence of either a 'X-Amz-Date' or a 'Date' header")
    if lacks:
        raise MalformedSignature(" ".join(f"Authorization header requires {one}." for one in lacks))
    return Signature(_terms(fields[b"Credential"], fields[b"SignedHeaders"]), stamp, fields[b"Signature"])


def _from_query(query: str) -> Signature:
    fields: dict[bytes, bytes] = {}
    for name, value in _pairs(query):
        if name in _QUERY_FIELDS:
            if name in fields:
                raise MalformedSignature(f"AWS query-string parameters include '{name.decode()}' twice.")
            fields[name] = value
    lacks = [name.decode() for name in _QUERY_FIELDS if name not in fields]
    if lacks:
        raise MalformedSignature(" ".join(f"AWS query-string parameters must include '{name}'." for name in lacks))
    algorithm, credential, stamp, expires, signed_headers, signature = (fields[name] for name in _QUERY_FIELDS)
    if algorithm != ALGORITHM:
        raise MalformedSignature(_OTHER_ALGORITHM)
    if not expires.isdigit() or len(expires) > 6 or not 1 <= int(expires) <= LONGEST_EXPIRES_S:
        raise MalformedSignature(f"X-Amz-Expires must be a number of seconds from 1 to {LONGEST_EXPIRES_S}.")
    return Signature(_terms(credential, signed_headers), stamp, signature, int(expires))


def _terms(credential: bytes, signed_headers: bytes) -> SigningTerms:
    if len(credential) + len(signed_headers) > _LONGEST_REMEMBERED:
        return SigningTerms(credential, signed_headers)
    return _remembered_terms(credential, signed_headers)


@lru_cache(1024)
def _remembered_terms(credential: bytes, signed_headers: bytes) -> SigningTerms:
    return SigningTerms(credential, signed_headers)


@lru_cache(256)
def _instant(stamp: bytes) -> int:
    """Milliseconds since the epoch. Cached: a busy client signs many requests in a second."""
    try:
        if _STAMP.fullmatch(stamp) is None:
            raise ValueError
        at = datetime.strptime(stamp.decode(), _FORM).replace(tzinfo=UTC)
    except ValueError:
        raise MalformedSignature("Date must be in ISO-8601 'basic format', such as 20260102T030405Z.") from None
    return (at - _EPOCH) // timedelta(milliseconds=1)


@lru_cache(256)
def _stamp_of_date(date: bytes) -> bytes:
    """The header Date may be written as HTTP has it. Empty if it cannot be read."""
    if _STAMP.fullmatch(date):
        return date
    try:
        at = parsedate_to_datetime(date.decode("latin-1"))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).strftime(_FORM).encode()
    except (ValueError, TypeError, IndexError, OverflowError):
        return b""


# ---- what can be said without the body and the secret ----------------------------------------------------


def fault_of(signature: Signature, headers: Mapping[bytes, bytes], services: Collection[str], now: int) -> str | None:
    """Why it is wrong whatever it was made with: its scope, its instant or the headers that it leaves out."""
    return (
        _fault_of_scope(signature, services)
        or _fault_of_time(signature, now)
        or _fault_of_headers(signature.terms, headers)
    )


def _fault_of_scope(signature: Signature, services: Collection[str]) -> str | None:
    terms = signature.terms
    if terms.service not in services:
        return f"Credential should be scoped to correct service: {', '.join(map(repr, services))}."
    if terms.terminator != TERMINATOR:
        return f"Credential should be scoped with a valid terminator: '{TERMINATOR}'."
    if not terms.region:
        return "Credential should be scoped to a valid region."
    stamp = signature.stamp.decode()
    if terms.day != stamp[:8]:
        return (
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"{terms.day!r} != {stamp[:8]!r}, from {stamp!r}."
        )
    return None


def _fault_of_time(signature: Signature, now: int) -> str | None:
    signed_at, stamp = signature.signed_at, signature.stamp.decode()
    if signed_at > now + SKEW_MS:
        return f"Signature not yet current: {stamp} is still later than {_told(now + SKEW_MS)} ({_told(now)} + 15 min.)"
    if signature.expires_s is not None:
        if signed_at + signature.expires_s * 1000 < now:
            return f"Signature expired: {stamp} and {signature.expires_s} seconds are now earlier than {_told(now)}."
    elif signed_at < now - SKEW_MS:
        return f"Signature expired: {stamp} is now earlier than {_told(now - SKEW_MS)} ({_told(now)} - 15 min.)"
    return None


def _told(instant: int) -> str:
    return (_EPOCH + timedelta(milliseconds=instant)).strftime(_FORM)


def _fault_of_headers(terms: SigningTerms, headers: Mapping[bytes, bytes]) -> str | None:
    """What is not signed can be changed on the way, and some of these headers say what is to be done."""
    signed = terms.header_names
    if b"host" not in signed:
        return "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
    for name in headers:
        if name.startswith(b"x-amz-") and name not in signed:
            return f"There were headers present in the request which were not signed: {name.decode('latin-1')}"
    return None


# ---- the signature ---------------------------------------------------------------------------------------


def canonical_request(
    signature: Signature, method: str, path: str, query: str, headers: Mapping[bytes, bytes], body_hash: bytes
) -> bytes:
    """`path` and `query` are as they were sent. A header that is signed and not there counts as empty."""
    header_names = signature.terms.header_names
    queried = _canonical_query(query, signature.expires_s is not None) if query else b""
    lines = [method.encode("latin-1"), _canonical_path(path), queried]
    lines += [b"%b:%b" % (name, b" ".join(headers.get(name, b"").split())) for name in header_names]
    lines += (b"", b";".join(header_names), body_hash)
    return b"\n".join(lines)


def string_to_sign(signature: Signature, canonical: bytes) -> bytes:
    return b"\n".join((ALGORITHM, signature.stamp, signature.terms.scope, hash_of(canonical)))


def hash_of(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()


def signing_key(secret: str, terms: SigningTerms) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (terms.day, terms.region, terms.service, terms.terminator):
        key = hmac.digest(key, part.encode("latin-1"), "sha256")
    return key


def is_signed(signature: Signature, key: bytes, text: bytes) -> bool:
    """Whether this signing key and this string to sign make this signature."""
    return hmac.compare_digest(hmac.digest(key, text, "sha256").hex().encode(), signature.value)


def _canonical_path(path: str) -> bytes:
    """Every service but S3 has a path without dot segments and empty ones, in which what was escaped is escaped
    again."""
    if _PLAIN_PATH.fullmatch(path):
        return path.encode() or b"/"
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    normal = "/" + "/".join(kept) + ("/" if kept and path.endswith("/") else "")
    return quote_from_bytes(normal.encode("latin-1"), "/~").encode()


def _canonical_query(query: str, has_signature: bool) -> bytes:
    """A signature in the query cannot be a part of what is signed."""
    pairs = sorted(
        (quote_from_bytes(name, ""), quote_from_bytes(value, ""))
        for name, value in _pairs(query)
        if not has_signature or name != _SIGNATURE_FIELD
    )
    return "&".join(f"{name}={value}" for name, value in pairs).encode()


def _pairs(query: str) -> list[tuple[bytes, bytes]]:
    """Decoded in the way in which a handler will read them, so that what is signed is what is done."""
    found = []
    for part in query.split("&"):
        if part:
            name, _, value = part.replace("+", " ").partition("=")
            found.append((unquote_to_bytes(name.encode("latin-1")), unquote_to_bytes(value.encode("latin-1"))))
    return found
