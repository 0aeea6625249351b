"""One trouble, told once in the log however often it is met, and again when it is over."""

from __future__ import annotations

import logging

# What may be told of one trouble, should its text change all the time.
_MOST_TEXTS = 10


class Complaint:
    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        if text in self._said or len(self._said) >= _MOST_TEXTS:
            return
        self._said.add(text)
        self._log.log(self._level, "%s", text)

    def end(self, text: str) -> None:
        """All is well. Nothing is said if it was before."""
        if self._said:
            self._said.clear()
            self._log.info("%s", text)
