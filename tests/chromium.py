"""A real Chromium, driven through its DevTools over a pipe: no port, no driver program, nothing to install."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.lacking import not_installed
from tests.waiting import wait_until

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
# On a busy machine a browser takes its time; nothing here depends on how much.
_PATIENCE_S = 120
# How Chromium answers what was asked of a document that has just made way for another.
_GONE = (
    "Inspected target navigated or closed",
    "Cannot find context with specified id",
    "Execution context was destroyed",
)


class DocumentGone(Exception):
    """The page has gone elsewhere before it could answer."""


class Chromium:
    """`hosts` are names that lead to this machine in this browser, as if a DNS server said so."""

    def __init__(self, home: Path, *hosts: str) -> None:
        if PROGRAM is None:
            not_installed("chromium")
        inlet, self._commands = _pipe()
        self._events, outlet = _pipe()
        rules = ", ".join(f"MAP {host} 127.0.0.1" for host in hosts)
        command = [PROGRAM, "--headless", *QUIET, f"--user-data-dir={home}", "--remote-debugging-pipe"]
        command += [f"--host-resolver-rules={rules}"] if hosts else []
        # Chromium reads commands from 3 and writes answers to 4.
        shell = f'exec "$0" "$@" 3<&{inlet} 4>&{outlet}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, *command, "about:blank"],
            pass_fds=(inlet, outlet),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inlet)
        os.close(outlet)
        self._numbers = itertools.count(1)
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with open(self._events, "rb") as events:
            pending = b""
            while chunk := events.read1(1 << 16):
                *whole, pending = (pending + chunk).split(b"\0")
                for message in whole:
                    found = json.loads(message)
                    if "id" in found:
                        self._answers.put(found)

    def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=_PATIENCE_S)
            if answer["id"] == number:
                if "error" in answer and answer["error"]["message"].startswith(_GONE):
                    raise DocumentGone(answer["error"]["message"])
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, target, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)  # which ends it
        try:
            self._process.wait(_PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
        self._reader.join()


class Page:
    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def go(self, url: str, referrer: str | None = None) -> None:
        """Navigate and wait until the document is there. With a `referrer`, as if by a link on that page."""
        self.call("Page.enable")
        self.call("Page.navigate", url=url, **({"referrer": referrer} if referrer else {}))
        self.until("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it is. As if somebody had clicked: windows may open."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for it, in whichever document the page has come to."""
        wait_until(lambda: self._is_so(condition), _PATIENCE_S, every_s=0.05, what=condition)

    def _is_so(self, condition: str) -> bool:
        try:
            return bool(self.run(f"Boolean({condition})"))
        except DocumentGone:
            return False

    def shape(self, width: int, height: int, dark: bool = False, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def _pipe() -> tuple[int, int]:
    """Both ends above those that Chromium wants for itself."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
