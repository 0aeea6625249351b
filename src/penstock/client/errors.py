"""What a call to a server can end in, by who must act.

ClientError
├── Refused                   the caller must change the request (any 4xx)
│   ├── InvalidRequest        400: a value that does not parse or is out of range
│   ├── Unauthorized          401, 403: the API key is missing or not good enough
│   ├── TooLarge              413: over a limit; says which
│   ├── QueueNotFound         404
│   ├── QueueExists           409
│   ├── SendConflict          409: the idempotency key belongs to other content
│   ├── MessageNotFound       404
│   ├── MoveNotFound          404
│   ├── MoveConflict          409: one of the queues is part of another move
│   ├── ShipmentNotFound      404, of a shipment or an export
│   ├── ShipmentConflict      409: another number was expected; see `expected`
│   ├── ShipmentEnded         410: it was settled, released, lost or purged; see `how`
│   ├── LeaseHeld             409: another one has the lease; see `holder` and `until`
│   ├── KeyNotFound           404
│   ├── KeyExists             409
│   └── KeyConflict           409: the key was revoked, or has two secrets already
├── ServerFailed              the operator must look (any 5xx)
│   └── Unavailable           503: try again after `retry_after_s`
├── Unreachable               no connection, or it broke, or no answer in time; see `sent`
└── UnexpectedAnswer          not what a Penstock server says: look at the address

Each has a `code`, a word for programs that does not change: `queue-not-found`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.errors import PenstockError


class ClientError(PenstockError):
    code: ClassVar[str] = "client-error"


class Refused(ClientError):
    """`status` is the server's, or None where the client itself refused to send the request."""

    code = "refused"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class InvalidRequest(Refused):
    code = "invalid-request"


class Unauthorized(Refused):
    code = "unauthorized"


class TooLarge(Refused):
    code = "too-large"


class QueueNotFound(Refused):
    code = "queue-not-found"


class QueueExists(Refused):
    code = "queue-exists"


class SendConflict(Refused):
    code = "send-conflict"


class MessageNotFound(Refused):
    code = "message-not-found"


class MoveNotFound(Refused):
    code = "move-not-found"


class MoveConflict(Refused):
    code = "move-conflict"


class ShipmentNotFound(Refused):
    code = "shipment-not-found"


class ShipmentConflict(Refused):
    """`expected` is the number that can be claimed."""

    code = "shipment-conflict"
    expected: int | None = None


class ShipmentEnded(Refused):
    """`how` is settled, released, lost, or purged for messages that left by other means."""

    code = "shipment-ended"
    how: str = "ended"


class LeaseHeld(Refused):
    """`holder` has it, and keeps it `until` an instant at least."""

    code = "lease-held"
    holder: str = ""
    until: int = 0


class KeyNotFound(Refused):
    code = "key-not-found"


class KeyExists(Refused):
    code = "key-exists"


class KeyConflict(Refused):
    code = "key-conflict"


class ServerFailed(ClientError):
    code = "server-failed"

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(ServerFailed):
    code = "unavailable"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, 503)
        self.retry_after_s = retry_after_s


class Unreachable(ClientError):
    """`sent` says that the server may have carried out the request although no answer came."""

    code = "unreachable"

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class UnexpectedAnswer(ClientError):
    code = "unexpected-answer"


_REFUSALS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Unauthorized,
    404: QueueNotFound,
    409: QueueExists,
    413: TooLarge,
}


def error_of(
    status: int, told: Mapping[str, Any], retry_after: str | None, refusals: Mapping[int, type[Refused]] | None = None
) -> ClientError:
    """The one table from an HTTP status to an exception; `refusals` go before it. `told` is what the server says."""
    message = told["error"]
    if status == 503:
        return Unavailable(message, int(retry_after) if retry_after and retry_after.isdecimal() else 1)
    if status >= 500:
        return ServerFailed(message, status)
    error = {**_REFUSALS, **(refusals or {})}.get(status, Refused)(message, status)
    if isinstance(error, ShipmentConflict):
        error.expected = told.get("expected")
    elif isinstance(error, ShipmentEnded):
        error.how = str(told.get("how", "ended"))
    elif isinstance(error, LeaseHeld):
        error.holder, error.until = str(told.get("holder", "")), told.get("until", 0)
    return error
