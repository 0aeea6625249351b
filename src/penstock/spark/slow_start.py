"""Streams on machines that are very busy.

Spark gives the Python process of a stream's source ten seconds to start, which no setting changes, and ends the query
if it takes longer ("Python worker failed to connect back"). Nothing was read by then, so the query can be started again
as it is. Batch reads and writes are not affected: their workers come from a process that Spark waits for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.terminal import Lines, Progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRIES = 3
_WORDS = ("Python worker failed to connect back", "waiting for the Python worker to connect back")
_LOOK_EVERY_S = 0.05


def is_slow_start(error: BaseException) -> bool:
    """Whether a Python process took longer to start than Spark waits for it: the next time it may not."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return False
    try:
        text = str(error)
    except Exception:  # an error of Java asks Java, which may have ended
        return False
    return any(words in text for words in _WORDS)


def said_of(tried: int, tries: int = TRIES) -> str:
    return (
        "a Python process took longer to start than the 10 s that Spark waits, as on a very busy machine: "
        f"starting again, {tried + 1} of {tries}"
    )


def start_stream(writer: DataStreamWriter, tries: int = TRIES, progress: Progress | None = None) -> StreamingQuery:
    """Start a query and return it when its sources have started, or it has ended. One that Spark did not wait for is
    started again, and a line says so."""
    tried = 0
    while True:
        tried += 1
        query = writer.start()
        while query.isActive and str(query.status["message"]).startswith("Initializing"):
            time.sleep(_LOOK_EVERY_S)
        error = None if query.isActive else query.exception()
        if error is None or tried >= tries or not is_slow_start(error):
            return query
        (progress or Lines()).say(said_of(tried, tries))
