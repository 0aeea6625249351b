"""The limit of open files, as a server process of its own meets it."""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.lacking import lacking, not_installed
from tests.servers import SERVE, ServerProcess
from tests.talk import Talk
from tests.waiting import wait_until


def soft_limit(server: ServerProcess) -> int:
    text = Path(f"/proc/{server.process.pid}/limits").read_text()
    return int(re.search(r"Max open files\s+(\d+)", text)[1])


def limited_to(soft: int, hard: int) -> tuple[str, ...]:
    if shutil.which("prlimit") is None:
        not_installed("prlimit")
    return ("prlimit", f"--nofile={soft}:{hard}")


def hard_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_it_asks_for_what_its_connections_need(serve: Callable[..., ServerProcess]) -> None:
    if hard_limit() < 2_300:
        lacking("a process may open too few files", f"{hard_limit()} of them")
    server = serve("--max-connections", "2000", prefix=limited_to(256, hard_limit()))
    assert 2_000 < soft_limit(server) < 2_400
    assert "ulimit" not in server.log.read_text()


def test_it_leaves_a_limit_that_is_high_enough(serve: Callable[..., ServerProcess]) -> None:
    server = serve("--max-connections", "100", prefix=limited_to(999, hard_limit()))
    assert soft_limit(server) == 999


def test_where_it_may_not_have_as_many_the_next_client_is_refused(serve: Callable[..., ServerProcess]) -> None:
    server = serve(prefix=limited_to(200, 200))
    said = re.search(r"may open 200 files .*: at most (\d+) connections", server.log.read_text())
    assert said is not None
    most = int(said[1])
    host, port = server.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(socket.create_connection((host, int(port))))
        wait_until(lambda: health(server) == 503)  # each process takes its connections when it comes to it
    wait_until(lambda: health(server) == 200)


def health(server: ServerProcess) -> int:
    with Talk(server.url) as talk:
        return talk("GET", "/health").status


def test_too_few_for_a_server(tmp_path: Path) -> None:
    serve = (*limited_to(60, 60), *SERVE, "--store", "sqlite:///p.db")
    ended = subprocess.run(serve, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "may open 60 files (ulimit -n), too few for a server" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "p.db").exists()
