"""Where all of it can be read when a job fails: what Spark and its workers have said, and the stack trace."""

from __future__ import annotations

import logging
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from penstock import __version__


class JobLog:
    """A file that only its owner can read. A temporary one is removed where the job has not failed; one that was asked
    for stays."""

    def __init__(self, job: str, wanted: str | None = None) -> None:
        """Raises OSError where `wanted` cannot be written."""
        self._temporary = wanted is None
        if wanted is None:
            handle, name = tempfile.mkstemp(prefix=f"penstock-{job}-", suffix=".txt")
        else:
            handle, name = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), wanted
        os.close(handle)
        self.path = Path(name)

    @contextmanager
    def taking_the_rest(self) -> Iterator[None]:
        """What libraries log and warn of while a job runs comes here too: py4j, for one, has a stack trace for every
        connection to a Java that ends."""
        handler = logging.FileHandler(self.path, delay=True)
        handler.setLevel(logging.WARNING)
        logging.getLogger().addHandler(handler)
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)
            logging.getLogger().removeHandler(handler)
            handler.close()

    def said(self) -> str:
        """By Spark, so far."""
        try:
            return self.path.read_text(errors="replace")
        except OSError:  # somebody has tidied up
            return ""

    def add(self, error: BaseException, secrets: tuple[str, ...] = ()) -> None:
        """No secret gets into it."""
        system = f"penstock {__version__}, Python {platform.python_version()}, {platform.platform()}"
        when = datetime.now(UTC).isoformat(timespec="seconds")
        words = ["\n", f"{when}  {' '.join(sys.argv)}\n", f"{system}\n", *traceback.format_exception(error)]
        text = self.said() + "".join(words)
        for secret in secrets:
            text = text.replace(secret, "…")
        self.path.write_text(text, errors="backslashreplace")

    def drop(self) -> None:
        if self._temporary:
            self.path.unlink(missing_ok=True)
