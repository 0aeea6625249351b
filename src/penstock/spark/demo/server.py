"""A private server for the time of a demo: on a free port of this machine, with a store of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from penstock.spark.errors import JobFailed

_SERVES = re.compile(r"serves (http\S+) from")
_STOP_S = 20.0


class PrivateServer:
    """Runs while the `with` lasts, however that ends. What it says is in `server.log`."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "server.log"
        self.store = f"sqlite:///{folder / 'store' / 'penstock.db'}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> PrivateServer:
        # What is set for the user's own server is not meant for this one.
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--store", self.store]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stderr=log, env=surroundings)  # noqa: S603
        try:
            self.url = self._wait_until_it_serves(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait_until_it_serves(self, process: subprocess.Popen[bytes]) -> str:
        while True:
            said = self.log.read_text("utf-8", "replace")
            found = _SERVES.search(said)
            if found:
                return found[1]
            if process.poll() is not None:
                raise JobFailed(f"the server did not start: {said.strip() or 'it said nothing'}")
            time.sleep(0.02)

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
