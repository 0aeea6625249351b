"""Workers as processes of their own, ended in every way: nothing is acked that was not done, and nothing is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from tests.waiting import wait_until

MESSAGES = 60

IN_THREADS = """
import sys, time
from penstock.client import Client

def handle(message):
    done.write(f"begun {message.text}\\n")
    time.sleep(0.02)
    done.write(f"ended {message.text}\\n")

done = open(sys.argv[2], "a", buffering=1)
with Client(sys.argv[1]) as client:
    print(client.work("jobs", handle, concurrency=3, limit=12, wait_ms=200))
"""

IN_TASKS = """
import asyncio, sys
from penstock.client import AsyncClient

async def handle(message):
    done.write(f"begun {message.text}\\n")
    await asyncio.sleep(0.02)
    done.write(f"ended {message.text}\\n")

async def main():
    async with AsyncClient(sys.argv[1]) as client:
        print(await client.work("jobs", handle, concurrency=3, limit=12, wait_ms=200))

done = open(sys.argv[2], "a", buffering=1)
asyncio.run(main())
"""


class Program:
    """A worker that writes down what it begins and what it ends."""

    def __init__(self, text: str, url: str, notes: Path) -> None:
        self.notes = notes
        notes.touch()
        command = [sys.executable, "-c", text, url, str(notes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def noted(self, what: str) -> list[str]:
        return re.findall(rf"^{what} (\d+)$", self.notes.read_text(), re.MULTILINE)

    def wait_until_it_has_done_some(self) -> None:
        def has_done_some() -> bool:
            assert self.process.poll() is None, self.process.stderr.read()
            return len(self.noted("ended")) >= 5

        wait_until(has_done_some)

    def wait(self) -> str:
        output, errors = self.process.communicate(timeout=60)
        assert "Traceback" not in errors
        return output


@pytest.fixture(params=[IN_THREADS, IN_TASKS], ids=["threads", "tasks"])
def program(request: pytest.FixtureRequest, server, tmp_path: Path) -> Iterator[Program]:
    with Client(server.url) as client:
        client.create_queue("jobs")
        client.send_many("jobs", [str(number) for number in range(MESSAGES)])
    program = Program(request.param, server.url, tmp_path / "notes")
    yield program
    if program.process.poll() is None:
        program.process.kill()
        program.process.communicate()


def left(url: str) -> set[str]:
    """Everything that is still in the queue, and can be claimed."""
    with Client(url) as client:
        return {message.text for message in client.claim("jobs", limit=1000)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_it_finish_what_it_has_begun(program, server, number):
    program.wait_until_it_has_done_some()
    program.process.send_signal(number)
    output = program.wait()
    assert program.process.returncode == 0
    begun, ended = program.noted("begun"), program.noted("ended")
    assert sorted(begun) == sorted(ended)
    found = re.fullmatch(r"Worked\(acked=(\d+), .*returned=(\d+), lost=0, unfinished=0\)\n", output)
    assert found, output
    assert int(found[1]) == len(ended)
    # What was not begun can be claimed at once: nothing waits for a claim to run out.
    assert left(server.url) == {str(number) for number in range(MESSAGES)} - set(ended)


def test_a_kill_loses_nothing(program, server):
    program.wait_until_it_has_done_some()
    program.process.kill()
    program.wait()
    seen = set(program.noted("ended"))

    def has_seen_all() -> bool:
        # A claim that was under way when the process died may be carried out only now: that one runs out as well.
        server.clock.advance(31)
        seen.update(left(server.url))
        return seen == {str(number) for number in range(MESSAGES)}

    wait_until(has_seen_all)


STUCK = """
import sys, threading
from penstock.client import Client

def handle(message):
    print("begun", flush=True)
    threading.Event().wait()

with Client(sys.argv[1]) as client:
    client.work("jobs", handle)
"""


def test_a_second_signal_does_not_wait(server):
    with Client(server.url) as client:
        client.create_queue("jobs")
        client.send("jobs", "1")
        command = [sys.executable, "-c", STUCK, server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "begun\n"

            # The signal may come before the worker has looked at the first: as often as it takes.
            def has_ended() -> bool:
                process.send_signal(signal.SIGTERM)
                return process.poll() is not None

            wait_until(has_ended)
            assert process.returncode == -signal.SIGTERM
        assert client.queue("jobs").count.total == 1
