"""What a call to a server can end in, by who must act.

ClientError
├── Refused                   the caller must change the request (any 4xx)
│   ├── InvalidRequest        400: a value that does not parse or is out of range
│   ├── Unauthorized          401, 403: the API key is missing or not good enough
│   ├── QueueNotFound         404
│   ├── QueueExists           409
│   ├── KeyNotFound           404, of an API key
│   ├── KeyExists             409, of an API key
│   ├── MoveNotFound          404, of a move
│   ├── MoveConflict          409: one of the queues is part of another move
│   └── TooLarge              413: over a limit; says which
├── ServerFailed              the operator must look (any 5xx)
│   └── Unavailable           503: nobody must act; try again after `retry_after_s`
├── Unreachable               no connection, or it broke, or no answer in time; see `sent`
└── UnexpectedAnswer          not what a Penstock server says: look at the address
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import PenstockError


class ClientError(PenstockError):
    pass


class Refused(ClientError):
    """`status` is the server's, or None where the client itself refused to send the request."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class InvalidRequest(Refused):
    pass


class Unauthorized(Refused):
    pass


class QueueNotFound(Refused):
    pass


class QueueExists(Refused):
    pass


class KeyNotFound(Refused):
    pass


class KeyExists(Refused):
    pass


class MoveNotFound(Refused):
    pass


class MoveConflict(Refused):
    pass


class TooLarge(Refused):
    pass


class ServerFailed(ClientError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(ServerFailed):
    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, 503)
        self.retry_after_s = retry_after_s


class Unreachable(ClientError):
    """`sent` says that the server may have carried out the request although no answer came."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class UnexpectedAnswer(ClientError):
    pass


_REFUSALS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Unauthorized,
    404: QueueNotFound,
    409: QueueExists,
    413: TooLarge,
}


# Where the thing that is missing or there already is an API key.
KEY_REFUSALS: Mapping[int, type[Refused]] = {404: KeyNotFound, 409: KeyExists}
# A move is asked for by its id; to start one takes two queues.
MOVE_REFUSALS: Mapping[int, type[Refused]] = {404: MoveNotFound}
START_REFUSALS: Mapping[int, type[Refused]] = {409: MoveConflict}


def error_of(
    status: int, message: str, retry_after: str | None, refusals: Mapping[int, type[Refused]] | None = None
) -> ClientError:
    """The one table from an HTTP status to an exception; `refusals` go before it."""
    if status == 503:
        return Unavailable(message, int(retry_after) if retry_after and retry_after.isdecimal() else 1)
    if status >= 500:
        return ServerFailed(message, status)
    return {**_REFUSALS, **(refusals or {})}.get(status, Refused)(message, status)
