"""Browsers other than Chromium, as Debian has them: Firefox, driven by Marionette, and WebKit, driven by WebDriver.

Playwright would need builds of its own for both. Each is told what to do in the terms of the W3C's WebDriver: Firefox
over a socket of its own, WebKit by the program that comes with it, on a display that no one sees.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.lacking import not_installed
from tests.waiting import wait_until

# On a busy machine a browser takes its time; nothing here depends on how much.
_PATIENCE_S = 120
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SIZE = (1280, 900)
_QUIET = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Firefox:
    name = "firefox"

    def __init__(self, home: Path) -> None:
        program = shutil.which("firefox-esr") or shutil.which("firefox") or not_installed("firefox-esr")
        port = _free_port()
        settings = {**_QUIET, "marionette.port": port}
        (home / "user.js").write_text(
            "".join(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in settings.items())
        )
        # It may look at its own console of errors only with the last flag but one.
        flags = ["--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", str(home)]
        env = {
            **os.environ,
            "HOME": str(home),
            "MOZ_HEADLESS_WIDTH": str(_SIZE[0]),
            "MOZ_HEADLESS_HEIGHT": str(_SIZE[1]),
        }
        self._process = subprocess.Popen(
            [program, *flags], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._socket: socket.socket | None = None
        self._number = 0
        try:
            wait_until(lambda: self._connect(port), _PATIENCE_S, every_s=0.05)
            self._read()
            self.call("WebDriver:NewSession")
        except BaseException:
            self.close()
            raise

    def _connect(self, port: int) -> bool:
        with suppress(OSError):
            self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
        return self._socket is not None

    def _read(self) -> Any:
        """A length, a colon, and so much JSON."""
        assert self._socket is not None
        length = b""
        while not length.endswith(b":"):
            length += self._socket.recv(1) or b":"
        said = b""
        while len(said) < int(length[:-1]):
            said += self._socket.recv(int(length[:-1]) - len(said))
        return json.loads(said)

    def call(self, command: str, **parameters: Any) -> Any:
        assert self._socket is not None
        self._number += 1
        said = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(said), said))
        _, _, error, result = self._read()
        assert error is None, f"{command}: {error}"
        return result

    def go(self, url: str) -> None:
        self.call("WebDriver:Navigate", url=url)

    def run(self, script: str, *arguments: object) -> Any:
        return self.call("WebDriver:ExecuteScript", script=script, args=arguments)["value"]

    def click(self, css: str) -> None:
        self.call("WebDriver:ElementClick", id=self._find(css))

    def write(self, css: str, text: str) -> None:
        self.call("WebDriver:ElementSendKeys", id=self._find(css), text=text)

    def _find(self, css: str) -> str:
        found: str = self.call("WebDriver:FindElement", using="css selector", value=css)["value"][_ELEMENT]
        return found

    def picture(self) -> bytes:
        return base64.b64decode(self.call("WebDriver:TakeScreenshot", full=True)["value"])

    def complaints(self, url: str) -> list[str]:
        """Errors of scripts, and what the content security policy has stopped, on pages of this server."""
        self.call("Marionette:SetContext", value="chrome")
        script = """
            return Services.console.getMessageArray()
                .filter(one => one instanceof Ci.nsIScriptError && !(one.flags & Ci.nsIScriptError.warningFlag))
                .filter(one => (one.sourceName || "").startsWith(arguments[0]) || one.category == "CSP")
                .map(one => one.errorMessage)
            """
        found: list[str] = self.run(script, url)
        self.call("Marionette:SetContext", value="content")
        return found

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._process.terminate()
        self._process.wait()


class WebKit:
    """WebKitGTK's own small browser."""

    name = "webkit"

    def __init__(self, home: Path) -> None:
        driver = shutil.which("WebKitWebDriver") or not_installed("webkit2gtk-driver")
        display = shutil.which("Xvfb") or not_installed("xvfb")
        programs = sorted(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"))
        if not programs:
            not_installed("webkit2gtk-driver", "its MiniBrowser is missing")
        ready, tell = os.pipe()
        size = f"{_SIZE[0]}x{_SIZE[1]}x24"
        # Its pixels are in a file, of which pictures are made: this driver makes none where there is no graphics card.
        self._pixels = home / "Xvfb_screen0"
        shown = [display, "-displayfd", str(tell), "-screen", "0", size, "-nolisten", "tcp", "-fbdir", str(home)]
        self._processes = [subprocess.Popen(shown, pass_fds=(tell,), stderr=subprocess.DEVNULL)]
        os.close(tell)
        with open(ready, "rb") as told:
            number = told.readline().decode().strip()
        self._port, self._session = _free_port(), ""
        env = {**os.environ, "HOME": str(home), "DISPLAY": f":{number}", "GDK_BACKEND": "x11", "NO_AT_BRIDGE": "1"}
        env |= {"WEBKIT_DISABLE_COMPOSITING_MODE": "1", "LIBGL_ALWAYS_SOFTWARE": "1", "XDG_RUNTIME_DIR": str(home)}
        command = [driver, f"--port={self._port}"]
        quiet = subprocess.DEVNULL
        self._processes.append(subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet))
        try:
            wait_until(self._answers, _PATIENCE_S, every_s=0.05)
            options = {"webkitgtk:browserOptions": {"binary": str(programs[-1]), "args": ["--automation"]}}
            self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
            self._do("/window/rect", x=0, y=0, width=_SIZE[0], height=_SIZE[1])
        except BaseException:
            self.close()
            raise

    def _answers(self) -> bool:
        with suppress(OSError):
            self._ask("GET", "/status")
            return True
        return False

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_S)
        try:
            line.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
            answer = line.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            line.close()
        assert answer.status == 200, f"{path}: {value}"
        return value

    def _do(self, path: str, **parameters: object) -> Any:
        return self._ask("POST", f"/session/{self._session}{path}", parameters)

    def go(self, url: str) -> None:
        self._do("/url", url=url)
        # It tells of no errors by itself: what goes wrong from now on is noted by the page.
        self.run(
            """
            window.complaints = [];
            addEventListener("error", event => complaints.push(event.message));
            addEventListener("unhandledrejection", event => complaints.push(String(event.reason)));
            document.addEventListener("securitypolicyviolation", event => complaints.push(event.violatedDirective));
            """
        )

    def run(self, script: str, *arguments: object) -> Any:
        return self._do("/execute/sync", script=script, args=arguments)

    def click(self, css: str) -> None:
        # It does not scroll to what it is to click.
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", css)
        self._do(f"/element/{self._find(css)}/click")

    def write(self, css: str, text: str) -> None:
        self._do(f"/element/{self._find(css)}/value", text=text)

    def _find(self, css: str) -> str:
        found: str = self._do("/element", using="css selector", value=css)[_ELEMENT]
        return found

    def picture(self) -> bytes:
        # What is to be seen is painted a little after it is there.
        painted = (
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100)))"
        )
        self._do("/execute/async", script=painted, args=[])
        return _png_of_xwd(self._pixels.read_bytes())

    def complaints(self, _url: str) -> list[str]:
        found: list[str] = self.run("return window.complaints || []")
        return found

    def close(self) -> None:
        if self._session:
            with suppress(OSError, AssertionError):
                self._ask("DELETE", f"/session/{self._session}")
        for process in reversed(self._processes):
            process.terminate()
            process.wait()


def _png_of_xwd(dump: bytes) -> bytes:
    """A dump of a screen as X writes it, of 32 bits for each pixel, as a picture that everybody can look at."""
    header = struct.unpack(">25I", dump[:100])
    width, height, line, colors = header[4], header[5], header[12], header[19]
    start = header[0] + colors * 12
    rows = bytearray()
    for y in range(height):
        pixels = dump[start + y * line : start + y * line + width * 4]
        row = bytearray(width * 3)
        row[0::3], row[1::3], row[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
        rows += b"\0" + row

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    about = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", about), chunk(b"IDAT", zlib.compress(bytes(rows))), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
