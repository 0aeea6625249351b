"""A problem that is logged once, however often it occurs, and once more when it is over."""

from __future__ import annotations

import logging

# The most texts logged for one problem, should they differ every time.
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
        """The problem is over. Nothing is logged if there was none."""
        if self._said:
            self._said.clear()
            self._log.info("%s", text)
