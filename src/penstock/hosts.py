"""Host names, as they appear in addresses and in the headers `Host` and `Origin`."""

from __future__ import annotations

import re
import socket
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from penstock.errors import InvalidSetting
from penstock.keys import fits

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._*-]+)(?::([0-9]{1,5}))?", re.ASCII)
_LOCAL = "localhost"


def split(authority: str) -> tuple[str, str] | None:
    """Name and port, or None if it is not a valid host. The port is empty where none was given."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return None
    return found[1].removesuffix("."), found[2] or ""


def is_own(name: str) -> bool:
    """Whether the name always means this machine: a loopback address, or a name for one."""
    address = _address(name)
    return _is_local(name) if address is None else address.is_loopback


def needs_no_dns(name: str) -> bool:
    """Whether the name means the same machine whatever a DNS server says: an address, or a name of this machine."""
    return _is_local(name) or _address(name) is not None


def _is_local(name: str) -> bool:
    return name == _LOCAL or name.endswith("." + _LOCAL)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        if name.startswith("["):
            address = IPv6Address(name[1:-1])
            return address.ipv4_mapped or address
        # Also the short forms, such as 127.1, that browsers and curl take for addresses.
        return IPv4Address(socket.inet_aton(name))
    except (OSError, AddressValueError):
        return None


class HostNames:
    """The names a server is known by: `queue.example`, `queue.example:8443`, `*.example`. A name without a port stands
    for every port."""

    def __init__(self, names: str = "") -> None:
        """`names` are separated by commas. Raises InvalidSetting for one that is not a host."""
        self._whole = {name.strip().lower() for name in names.split(",") if name.strip()}
        self._patterns: list[tuple[str, str]] = []
        for name in sorted(self._whole):
            parts = split(name)
            if parts is None:
                raise InvalidSetting(
                    f"allowed_hosts names {name!r}: a host is written as queue.example, queue.example:8443 or *.example"
                )
            self._patterns.append(parts)

    def include(self, name: str, port: str) -> bool:
        return any(fits(glob, name) and only in ("", port) for glob, only in self._patterns)

    def name_exactly(self, authority: str) -> bool:
        """Without globs, and with the port as it was given."""
        return authority.lower() in self._whole
