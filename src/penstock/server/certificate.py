"""Until when the certificates in a PEM file are good. OpenSSL takes an expired one without a word, and its clients do
not.

Python's `ssl` does not tell the dates of one's own certificate, so they are read here. Whether it is a certificate at
all is for OpenSSL to say, which has loaded it by then: what cannot be read here is not complained about.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime
from pathlib import Path

_PEM = re.compile(rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----(.+?)-----END", re.DOTALL)
# Tags of ASN.1.
_VERSION, _UTC_TIME, _TIME = 0xA0, 0x17, 0x18
_FORMATS = {_UTC_TIME: "%y%m%d%H%M%SZ", _TIME: "%Y%m%d%H%M%SZ"}


def complaints(path: str, now: datetime) -> list[str]:
    """What clients will have against the certificates in this file, because of the time alone."""
    found: list[str] = []
    try:
        blocks = _PEM.findall(Path(path).read_bytes())
    except OSError:
        return []
    for place, block in enumerate(blocks):
        which = f"certificate {place + 1} of {len(blocks)} in {path}" if len(blocks) > 1 else f"the certificate {path}"
        try:
            not_before, not_after = _validity(binascii.a2b_base64(block))
        except (ValueError, IndexError, KeyError):
            continue
        if now > not_after:
            found.append(f"{which} has expired, on {_shown(not_after)}")
        elif now < not_before:
            found.append(f"{which} is not valid yet, but from {_shown(not_before)} on")
    return found


def _shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


def _validity(der: bytes) -> tuple[datetime, datetime]:
    """As RFC 5280 orders the parts of a certificate: version, number, algorithm, issuer, validity."""
    _, signed, _ = _element(der, 0)
    _, at, _ = _element(der, signed)
    tag, _, _ = _element(der, at)
    for _ in range(4 if tag == _VERSION else 3):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    tag, begin, end = _element(der, at)
    after_tag, after_begin, after_end = _element(der, end)
    return _instant(tag, der[begin:end]), _instant(after_tag, der[after_begin:after_end])


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of what begins there, where its content begins, and where it ends."""
    tag, length, at = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(der[at : at + size], "big"), at + size
    return tag, at, at + length


def _instant(tag: int, text: bytes) -> datetime:
    instant = datetime.strptime(text.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    # The century of two digits: C, and so Python, has it begin in 1969, and X.509 in 1950.
    return instant.replace(year=instant.year - 100) if tag == _UTC_TIME and instant.year >= 2050 else instant
