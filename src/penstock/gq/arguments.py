"""What callers may pass, checked before anything is done. Everything raises InvalidRequest or TooLarge."""

from __future__ import annotations

import math
from datetime import datetime

from penstock import limits, names
from penstock.errors import InvalidRequest, TooLarge
from penstock.model import Delivery

_LONGEST_S = 3600.0


def queue_name(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"the name of a queue is a text, not {type(value).__name__}")
    return names.check_with_space(value)


def payload(value: object) -> bytes:
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"the payload cannot be written as UTF-8: {error.reason}") from error
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidRequest(f"a payload is bytes or a text, not {type(value).__name__}")
    body = bytes(value)
    if len(body) > limits.BODY_BYTES:
        raise TooLarge(f"a payload has at most {limits.BODY_BYTES} bytes, and this one {len(body)}")
    return body


def deadline(value: object) -> int | None:
    """In milliseconds since the epoch."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidRequest("a deadline without a time zone may be hours off: use an aware datetime")
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"a deadline is a datetime or seconds since the epoch, not {type(value).__name__}")
    # Compared before it is multiplied: a huge int has no float, and NaN is in no range.
    if not 0 <= value <= limits.NEVER // 1000:
        raise InvalidRequest(f"a deadline lies between the epoch and the year 9999, not at {value}")
    return round(value * 1000)


def batch(value: object, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"batch is an int, not {type(value).__name__}")
    if not 1 <= value <= largest:
        raise InvalidRequest(f"batch is between 1 and {largest}, not {value}")
    return value


def delivery(value: object) -> Delivery:
    try:
        return Delivery(str(value))
    except ValueError:
        raise InvalidRequest(f"delivery is one of {', '.join(Delivery)}, not {value!r}") from None


def seconds(name: str, value: object, zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{name} is a number of seconds, not {type(value).__name__}")
    if math.isnan(value) or not 0 <= value <= _LONGEST_S or (value == 0 and not zero):
        raise InvalidRequest(f"{name} is {'from' if zero else 'above'} 0 to {_LONGEST_S:.0f} seconds, not {value}")
    return float(value)
