"""A consumer in a process of its own, which does as the payloads say and tells what it does, line by line.

python -m tests.gq.workers URL [option=value …]
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock.gq import Client

ROOT = Path(__file__).parents[2]


class Worker:
    def __init__(self, url: str, environ: dict[str, str] | None = None, **options: object) -> None:
        words = [sys.executable, "-u", "-m", "tests.gq.workers", url, *(f"{k}={v!r}" for k, v in options.items())]
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | (environ or {})
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self) -> str:
        return self._lines.get(timeout=100)

    def told(self) -> int:
        """How many lines there are to read by now: two for each message that is processed."""
        return self._lines.qsize()

    def lines(self) -> list[str]:
        """All that were not read yet, of a worker that has ended."""
        self.wait()
        self._reader.join()
        return [self._lines.get() for _ in range(self._lines.qsize())]

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(100)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def obey(payload: str) -> None:
    word, _, rest = payload.partition(" ")
    if word == "nap":
        threading.Event().wait(float(rest or 0.5))  # libfaketime breaks time.sleep
    if word in {"finish", "stay"}:
        # The first signal gives back the handler that was there before.
        while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            time.sleep(0.01)
        say("asked to stop")
    if word == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    while word in {"hang", "stay"}:
        time.sleep(0.05)  # in naps: Python notices a signal that comes just before a sleep only after it
    if word == "exit":
        os._exit(7)
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "raise":
        raise ValueError(rest)


def main(url: str, options: dict[str, Any]) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def callback(payload: bytes) -> None:
        say(f"begin {payload.decode()}")
        obey(payload.decode())
        say(f"end {payload.decode()}")

    with Client(url) as client:
        consumer = client.consumer(**options, on_lost=lambda message_id: say(f"lost {message_id}"))
        consumer.process(callback)
    after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    say("stopped, handlers restored" if after == before else "stopped, handlers changed")


if __name__ == "__main__":
    main(sys.argv[1], {name: eval(value) for name, value in (word.split("=", 1) for word in sys.argv[2:])})
