"""A Celery application in its own environment, with a server of the tests as its broker."""

from __future__ import annotations

import signal
import subprocess
import textwrap
from pathlib import Path

from tests.sqs_clients.environments import NEWEST, PROGRAMS, environ, program
from tests.waiting import wait_until


class Celery:
    """An application, its workers and what its tasks have noted."""

    def __init__(self, folder: Path, url: str, key: str = "any", secret: str = "thing") -> None:
        self._log, self.gate = folder / "tasks.log", folder / "gate"
        self._log.touch()
        broker = url.replace("http://", f"sqs://{key}:{secret}@") + "//"
        self._environ = environ(
            BROKER=broker, LOG=str(self._log), GATE=str(self.gate), PYTHONPATH=str(PROGRAMS), HOME=str(folder)
        )
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []

    def publish(self, program_text: str) -> None:
        """Run some lines that put tasks into the queue."""
        lines = f"from tasks import *\n{textwrap.dedent(program_text)}"
        command = [program(NEWEST, "python"), "-c", lines]
        done = subprocess.run(command, env=self._environ, cwd=self._folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker, in one process, which takes a task at a time."""
        number = len(self._workers)
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            words = ["-A", "tasks", "worker", "--pool", "solo", "--hostname", f"w{number}@here", "--loglevel", "INFO"]
            words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
            command = [program(NEWEST, "python"), "-m", "celery", *words]
            worker = subprocess.Popen(command, env=self._environ, cwd=self._folder, stdout=log, stderr=log)
        self._workers.append(worker)
        return worker

    def lines(self, word: str) -> list[str]:
        """What stands behind the word in the notes."""
        noted = [line.partition(" ") for line in self._log.read_text().splitlines()]
        return [rest for first, _, rest in noted if first == word]

    def wait_for(self, word: str, count: int) -> None:
        wait_until(lambda: len(self.lines(word)) >= count or self._has_lost_a_worker(), 100, 0.05, f"{count} × {word}")
        assert len(self.lines(word)) >= count, self.told()

    def _has_lost_a_worker(self) -> bool:
        return any(worker.poll() not in (None, 0, -signal.SIGKILL) for worker in self._workers)

    def told(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self._folder.glob("worker-*.log")))

    def stop(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
