"""Keeps API keys out of the logs of what carries them.

A key has to travel: from the driver's Python to its JVM, as an option of the source or inside the function that a task
runs, and on to the executors. The libraries on that way write down at level DEBUG all that they carry: py4j every
command with its arguments, where a function is in base64, and the client of Spark Connect every plan. They log through
Python's `logging`, so a filter on their loggers takes the keys out before any handler sees them.

A key that one of our own objects holds is known from then on. One that a program gives as an option itself is known by
its place, behind the name of the option.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import sys
import threading

HIDDEN = "*** (an API key)"
# A filter holds for its own logger only, not for those below.
_PY4J = ("py4j", "py4j.java_gateway", "py4j.clientserver")
_CONNECT = "pyspark.sql.connect.logging"
# A text among the arguments of a command of py4j is a line that begins with an s.
_OPTION = re.compile(r"(?im)^(sapikey\n)s(.*)$")
# In a plan of Spark Connect, as protobuf prints it.
_IN_PLAN = re.compile(r'(?i)(key: "apikey"\s+value: ")((?:[^"\\]|\\.)*)(")')
# Shorter ones would be found by chance.
_SHORTEST = 4


class Redaction(logging.Filter):
    """Lets every record pass, without what is secret in it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def hide(self, secret: str | None) -> None:
        """From now on."""
        if secret is None or len(secret) < _SHORTEST or secret in self._known:
            return
        with self._lock:
            self._known.add(secret)
            forms = sorted({form for one in self._known for form in _forms(one)}, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, forms)))

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        for found in (*_OPTION.finditer(said), *_IN_PLAN.finditer(said)):
            self.hide(found[2])
        clean = _IN_PLAN.sub(rf"\1{HIDDEN}\3", _OPTION.sub(rf"\1s{HIDDEN}", said))
        if self._pattern is not None:
            clean = self._pattern.sub(HIDDEN, clean)
        if clean != said:
            record.msg, record.args = clean, ()
        return True


def _forms(secret: str) -> set[str]:
    """A secret as it is, and as it looks inside base64: that depends on how many bytes stand before it."""
    plain = secret.encode("utf-8", "surrogatepass")
    forms = {secret, secret.replace("\\", "\\\\")}
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + plain).decode()
        # The first and the last characters hold bits of what stands beside it.
        first = -(-before * 8 // 6)
        last = (before + len(plain)) * 8 // 6
        if last - first >= _SHORTEST:
            forms.add(coded[first:last])
    return forms


_redaction = Redaction()
hide = _redaction.hide


def install() -> None:
    """On the loggers of those libraries, as far as they are loaded. Doing it again changes nothing."""
    hide(os.environ.get("PENSTOCK_API_KEY"))
    for name in _PY4J:
        logging.getLogger(name).addFilter(_redaction)
    # Its logger is of a class of its own, and must not be made here.
    if _CONNECT in sys.modules:
        sys.modules[_CONNECT].logger.addFilter(_redaction)
