"""A network of our own, in which packets can be dropped without a word.

The calling thread leaves the network of the machine for an empty one with a loopback device; so do the threads and the
processes that it starts from then on. No one else notices, nothing has a name, and it is gone with the last of them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
# Debian keeps the programs of administrators where users do not look.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class NoNetwork(Exception):
    """The system lets us make none: what is missing."""


class Network:
    """What `network` yields, for the processes inside."""

    def drop(self, port: int) -> None:
        """From now on nothing comes through to this port or from it, in either direction: no reset, no word."""
        _run(
            "nft",
            "add table inet penstock; "
            "add chain inet penstock dropped { type filter hook input priority 0; policy accept; }; "
            f"add rule inet penstock dropped tcp dport {port} drop; "
            f"add rule inet penstock dropped tcp sport {port} drop",
        )

    def mend(self) -> None:
        """All comes through again."""
        _run("nft", "add table inet penstock; delete table inet penstock")


@contextmanager
def network() -> Iterator[Network]:
    """Raises NoNetwork where it cannot be made."""
    for program, package in (("nft", "nftables"), ("ip", "iproute2")):
        if shutil.which(program, path=_PATH) is None:
            raise NoNetwork(f"{package} is not installed")
    if os.geteuid() != 0:
        raise NoNetwork("root is needed")
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as outside:
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise NoNetwork(f"no network can be made: {os.strerror(ctypes.get_errno())}")
        try:
            _run("ip", "link", "set", "lo", "up")
            yield Network()
        finally:
            if libc.setns(outside.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "the network outside cannot be entered again")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, "PATH": _PATH})
