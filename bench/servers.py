"""The servers that are measured, each a process of its own on a free port."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from bench.processes import family

# In the environment of what we compare with.
PEERS_PYTHON = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes], path: str = "/") -> None:
    while process.poll() is None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            try:
                connection.request("GET", path)
                connection.getresponse().read()
                return
            except OSError:
                time.sleep(0.005)
    raise RuntimeError(f"the server ended with {process.returncode}")


@contextmanager
def _running(
    port: int, command: list[str], path: str = "/", environment: Mapping[str, str] = os.environ
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_until_it_answers(port, process, path)
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def penstock(
    store: Path | str, *words: str, package: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`store` is a URL, or a folder for the embedded one. `package` is a folder with another Penstock than this one."""
    port = free_port()
    command = [sys.executable, "-m", "penstock", "serve", "--port", str(port), *words]
    store_url = store if isinstance(store, str) else f"sqlite:///{store}/penstock.db"
    environment = {**os.environ, "PYTHONPATH": str(package)} if package else os.environ
    with _running(port, [*command, "--store", store_url], "/health", environment) as process:
        yield f"http://127.0.0.1:{port}", process


@contextmanager
def moto() -> Iterator[str]:
    """moto's own server, which keeps everything in memory."""
    port = free_port()
    with _running(port, [str(PEERS_PYTHON), "-m", "moto.server", "-p", str(port)], "/moto-api/"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def edge_noop(*words: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Our edge and routing with every route of the product, and some that do nothing."""
    port = free_port()
    with _running(port, [sys.executable, "-m", "bench.noop_edge", str(port), *words]) as process:
        yield f"http://127.0.0.1:{port}", process


@contextmanager
def sockets_noop() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Reads and writes, and nothing in between."""
    port = free_port()
    with _running(port, [sys.executable, "-m", "bench.noop_sockets", str(port)]) as process:
        yield f"http://127.0.0.1:{port}", process


@contextmanager
def asgi_noop() -> Iterator[str]:
    """The fastest thing ASGI can do: a bare application on uvicorn with uvloop and httptools."""
    port = free_port()
    options = [
        "--port",
        str(port),
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--log-level",
        "error",
    ]
    with _running(port, [sys.executable, "-m", "uvicorn", "bench.noop_asgi:app", *options]):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def redis(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Redis as durable as it gets: every write synced before it is answered."""
    port = free_port()
    options = [
        "--port",
        str(port),
        "--dir",
        str(folder),
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
        # Nor does it ever compact its log beside the measure, as it would every few seconds.
        "--auto-aof-rewrite-percentage",
        "0",
    ]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        while subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout != b"PONG\n":
            time.sleep(0.02)
        yield port, process
    finally:
        process.terminate()
        process.wait()


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(server: int) -> float:
    """What a process and its descendants have spent, those included that have ended."""
    return sum(process.cpu_s + process.ended_cpu_s for process in family(server))


def is_installed(program: str) -> bool:
    return shutil.which(program) is not None
