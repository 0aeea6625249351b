"""A server in a control group with little memory answers 503 before it is killed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from devtools.groups import CannotBeMade, memory_group
from penstock.server.config import Config
from penstock.server.memory import fit_memory, limit_mib
from tests.lacking import lacking
from tests.servers import ServerProcess
from tests.waiting import wait_until

MIB = 1 << 20


def files(folder: Path, own: str, **limits: str) -> tuple[Path, Path]:
    """Control groups as files: the limit of each group, whose folders are joined by a double underscore."""
    (folder / "own").write_text(own)
    groups = folder / "groups"
    groups.mkdir(exist_ok=True)
    for place, text in limits.items():
        *above, name = place.split("__")
        path = groups.joinpath(*above)
        path.mkdir(parents=True, exist_ok=True)
        (path / name.replace("_max", ".max").replace("memory_limit", "memory.limit")).write_text(f"{text}\n")
    return groups, folder / "own"


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limit_mib(tmp_path, tmp_path / "none") is None
    assert limit_mib(*files(tmp_path, "0::/a\n", a__memory_max="max")) is None
    assert limit_mib(*files(tmp_path, "4:memory:/a\n", memory__a__memory_limit_in_bytes="9223372036854771712")) is None


def test_the_least_of_the_groups_above_counts(tmp_path: Path) -> None:
    groups = files(tmp_path, "0::/a/b\n", a__memory_max=str(300 * MIB), a__b__memory_max=str(400 * MIB))
    assert limit_mib(*groups) == 300


def test_the_first_version_of_groups(tmp_path: Path) -> None:
    own = "9:cpu:/\n4:hugetlb,memory:/a\n0::/\n"
    assert limit_mib(*files(tmp_path, own, memory__a__memory_limit_in_bytes=str(256 * MIB))) == 256


def test_in_a_container_the_group_is_the_root(tmp_path: Path) -> None:
    assert limit_mib(*files(tmp_path, "0::/somewhere/else\n", memory_max=str(512 * MIB))) == 512


def test_bodies_get_what_there_is_room_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    groups = files(tmp_path, "0::/\n", memory_max=str(512 * MIB))
    assert fit_memory(Config(), *groups).max_bodies_mib == 108
    assert fit_memory(Config(workers=2), *groups).max_bodies_mib == 68
    assert fit_memory(Config(max_bodies_mib=50), *groups).max_bodies_mib == 50
    caplog.clear()
    assert fit_memory(Config(max_bodies_mib=200), *groups).max_bodies_mib == 200
    assert "with more than 108 MiB of bodies the server may be killed" in caplog.text
    assert fit_memory(Config(), *files(tmp_path, "0::/\n", memory_max=str(64 * MIB))).max_bodies_mib == 32


def test_a_server_in_a_small_group_refuses_what_would_kill_it(serve: Callable[..., ServerProcess]) -> None:
    with ExitStack() as stack:
        try:
            prefix = stack.enter_context(memory_group(256, "penstock-test"))
        except CannotBeMade as error:
            lacking("no control group can be made", str(error))
        server = serve("--body-timeout-s", "600", prefix=prefix)
        stack.callback(server.stop)
        assert "the control group has 256 MiB of memory" in server.log.read_text()
        head = b"POST /v1/queues/q/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (16 * MIB)
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(20)]
        answers = []
        for client in clients:
            with suppress(OSError):  # refused in the middle
                client.sendall(head + b"x" * (8 * MIB))
        for client in clients:
            client.settimeout(0.2)
            with suppress(OSError):
                answers.append(client.recv(65536)[:12])
        assert answers.count(b"HTTP/1.1 503") > 10
        with server.talk() as talk:
            assert talk("PUT", "/v1/queues/q", {}).status == 201
            assert talk("POST", "/messages/q", b"small").status == 201
        for client in clients:
            client.close()
        wait_until(lambda: fits(server))
        assert server.terminate() == 0


def fits(server: ServerProcess) -> bool:
    """Whether a large body is taken again."""
    with server.talk() as talk:
        return talk("POST", "/v1/queues/q/messages", b"x" * (10 * MIB)).status == 400
