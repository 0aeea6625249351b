"""Processes that fork: on SQLite a child keeps away from what its parent has open, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.gq import Client
from tests.gq.conftest import bodies

# What a program does before it forks, in the child, and in the parent once the child has ended.
PROGRAM = """
import os, sys
from penstock.gq import Client
from penstock.stores import open_store
from penstock.stores.transfer.copy import migrate

url = sys.argv[1]

def attempt(act):
    try:
        act()
        print("done", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)

def push(client, payload):
    client.producer().push(payload)

BEFORE
sys.stdout.flush()
if os.fork() == 0:
    CHILD
    sys.exit()
_, status = os.wait()
assert status == 0
AFTER
"""


def run(url: str, *, before: str, child: str, after: str = "pass") -> list[str]:
    program = PROGRAM.replace("BEFORE", before).replace("CHILD", child).replace("AFTER", after)
    ended = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, env=os.environ)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def left(url: str, count: int) -> list[bytes]:
    with Client(url) as client:
        return bodies(client, count)


def test_a_file_that_the_parent_has_open_is_closed_to_the_child(sqlite_url):
    told = run(
        sqlite_url,
        before="client = Client(url); push(client, b'1')",
        child="attempt(lambda: push(Client(url), b'lost')); attempt(lambda: open_store(url))",
        after="push(client, b'2'); client.close()",
    )
    assert len(told) == 2
    for line in told:
        assert line.startswith("StoreInherited: ")
        assert "after the fork" in line
        assert "'spawn' or 'forkserver'" in line
    assert left(sqlite_url, 2) == [b"1", b"2"]


def test_it_stays_closed_after_the_parent_has_closed_it_and_to_grandchildren(sqlite_url):
    told = run(
        sqlite_url,
        before="client = Client(url); push(client, b'1'); told, tell = os.pipe(); ready, go = os.pipe()",
        child="""
    if os.fork() == 0:
        os.read(told, 1)
        attempt(lambda: push(Client(url), b'lost'))
        os.write(go, b'x')
        sys.exit()""",
        after="client.close(); os.write(tell, b'x'); os.read(ready, 1)",
    )
    assert [line.partition(":")[0] for line in told] == ["StoreInherited"]
    assert left(sqlite_url, 1) == [b"1"]


def test_a_client_of_the_parent_does_nothing_in_the_child(url):
    told = run(
        url,
        before="client = Client(url); producer = client.producer(); consumer = client.consumer()",
        child="""
    attempt(lambda: producer.push(b'lost'))
    attempt(lambda: push(client, b'lost'))
    attempt(lambda: consumer.process(print))
    attempt(lambda: client.status(sys.argv[1]))
    attempt(client.close)""",
        after="producer.push(b'1'); client.close()",
    )
    assert [line.partition(":")[0] for line in told] == [*["InvalidRequest"] * 3, "MessageNotFound", "done"]
    assert "does not survive a fork" in told[0]
    assert left(url, 1) == [b"1"]


def test_a_store_of_the_parent_does_nothing_in_the_child(sqlite_url):
    told = run(
        sqlite_url,
        before="store = open_store(url)",
        child="""
    attempt(lambda: store.unit().__enter__())
    attempt(lambda: migrate(url, 'sqlite:///' + url[10:] + '.copy', None))
    attempt(store.close)""",
        after="store.unit().__enter__()",
    )
    assert [line.partition(":")[0] for line in told] == ["StoreInherited", "StoreInherited", "done"]
    assert not Path(sqlite_url.removeprefix("sqlite:///") + ".copy").exists()


def test_a_client_that_was_closed_before_the_fork_does_no_harm(sqlite_url):
    told = run(
        sqlite_url,
        before="client = Client(url); push(client, b'1'); client.close()",
        child="client = Client(url); push(client, b'2'); client.close(); print('pushed')",
        after="client = Client(url); push(client, b'3'); client.close()",
    )
    assert told == ["pushed"]
    assert left(sqlite_url, 3) == [b"1", b"2", b"3"]


def test_the_end_of_a_child_leaves_the_log_of_others_alone(sqlite_url):
    """The parent has closed the file, and another program was killed whose messages are still in the log."""
    killed = """
import os, signal, sys
from penstock.gq import Client
client = Client(sys.argv[1])
client.producer().push(b"2")
os.kill(os.getpid(), signal.SIGKILL)
"""
    program = f"""
import os, subprocess, sys
from penstock.gq import Client
client = Client(sys.argv[1])
client.producer().push(b"1")
told, tell = os.pipe()
child = os.fork()
if child == 0:
    os.read(told, 1)
    del client
    sys.exit()
client.close()
subprocess.run([sys.executable, "-c", {killed!r}, sys.argv[1]])
os.write(tell, b"x")
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", program, sqlite_url], check=True, env=os.environ)
    assert left(sqlite_url, 2) == [b"1", b"2"]


def test_processes_that_do_not_fork(sqlite_url, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing, sys
from penstock.gq import Client

def work(url, payload):
    with Client(url) as client:
        client.producer().push(payload)

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        client.producer().push(b"parent")
        for method in ("spawn", "forkserver"):
            process = multiprocessing.get_context(method).Process(target=work, args=(sys.argv[1], method.encode()))
            process.start()
            process.join()
            assert process.exitcode == 0
""")
    subprocess.run([sys.executable, str(program), sqlite_url], check=True, env=os.environ)
    assert left(sqlite_url, 3) == [b"parent", b"spawn", b"forkserver"]
