"""The table from errors to this API's answers. Whatever may succeed later is 503 and says after how many seconds."""

from __future__ import annotations

from penstock.edge.http import Response
from penstock.errors import TryAgain
from penstock.faces.answers import Error, error_response, json_response

RETRY_AFTER = (b"Retry-After", b"10")


def failure(error: Exception) -> Response:
    if isinstance(error, TryAgain):
        return json_response(503, Error(str(error)), RETRY_AFTER)
    return error_response(error)


def not_stored(error: Exception) -> Response:
    """What a message that was posted is answered when it is not known to be stored, whatever the cause."""
    answer = failure(error)
    return answer if answer.status != 500 else Response(503, answer.body, (*answer.headers, RETRY_AFTER))
