"""The address of a database, which may have several hosts: the one that is written to, and others that may take over.

A connection tries them in turn, beginning with the one that was found last: one that has gone without a trace would
else cost every new connection its time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from penstock.errors import InvalidSetting, StoreUnavailable

Found = TypeVar("Found")

_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})|%00")
# The scheme, who connects, the hosts, and the rest.
_PARTS = re.compile(r"([^:/?#]+://)((?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """`parts` are those of the URL with its first host alone. `hosts` are as they are written."""

    parts: SplitResult
    hosts: Sequence[str]


def address(url: str) -> Address:
    """In a password that is not escaped, a sign may end one part and begin another: that is told here, without quoting
    any of it, and not by a driver that takes half a password for the name of a host."""
    hosts = [""]
    try:
        url.encode()
        found = _PARTS.fullmatch(url)
        if found is not None:
            scheme, user, listed, rest = found.groups()
            hosts = listed.split(",")
            for host in hosts:
                urlsplit(f"//{host}")  # which knows what may stand in brackets
            parts = urlsplit(f"{scheme}{user}{hosts[0]}{rest}")
        else:
            parts = urlsplit(url)
        is_plain = parts.netloc.count("@") == 1 or "@" not in url
    except ValueError:
        is_plain = False
    if not is_plain or _NO_ESCAPE.search(url):
        raise InvalidSetting(
            "the address of the store cannot be read; in a name or a password, write %40 for @, %2F for /, %3F for ?, "
            "%23 for # and %25 for %"
        )
    return Address(parts, hosts)


def host_and_port(host: str, usual_port: int) -> tuple[str, int] | None:
    """None for what is not the name of a host, perhaps with a port."""
    parts = urlsplit(f"//{host}")
    try:
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or port == 0 or parts.username is not None:
        return None
    return parts.hostname, port or usual_port


class Hosts:
    """Places of one database by their numbers, of which one can be used."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._last = 0

    def __len__(self) -> int:
        return self._count

    def find(self, connect: Callable[[int], Found]) -> Found:
        """The connection to the first that can be used. Raises StoreUnavailable where none can."""
        first = self._last
        refusals: list[StoreUnavailable] = []
        for number in [first, *(number for number in range(self._count) if number != first)]:
            try:
                found = connect(number)
            except StoreUnavailable as error:
                refusals.append(error)
            else:
                self._last = number
                return found
        if len(refusals) == 1:
            raise refusals[0]
        raise StoreUnavailable("; ".join(map(str, refusals)))
