"""What a request of the Spark side can end in, by who must act.

WireError
├── Refused         the caller must change the request (any 4xx that is none of the next two); see `status`
├── Conflict        409: not the number whose turn it is (see `expected`), or a key that belongs to other content
├── Ended           410: the shipment or export has ended; `how` says settled, released, lost or purged
├── Unreachable     no answer, or "try again", for as long as the patience lasted
└── Failed          the operator must look: the server failed, or it is not a Penstock server
"""

from __future__ import annotations

from penstock.errors import PenstockError


class WireError(PenstockError):
    pass


class Refused(WireError):
    """`status` is None where the request was not even sent."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Conflict(WireError):
    def __init__(self, message: str, expected: int | None = None) -> None:
        super().__init__(message)
        self.expected = expected


class Ended(WireError):
    def __init__(self, message: str, how: str = "ended") -> None:
        super().__init__(message)
        self.how = how


class Unreachable(WireError):
    pass


class Failed(WireError):
    pass
