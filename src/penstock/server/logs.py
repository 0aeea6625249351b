"""The log on standard error: one line per event, as text or as JSON. Never a body, header or key."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def configure(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("{asctime} {levelname:<7} {message}", style="{")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    root = logging.getLogger("penstock")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    # An access log that was asked for is written, whatever else is to be logged.
    logging.getLogger("penstock.access").setLevel(logging.INFO)
