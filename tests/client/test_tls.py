"""The clients over TLS, with a certificate authority of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Unreachable
from tests.client.test_transport import answer
from tests.lacking import not_installed


class TlsListener:
    """Answers every request on every connection, over TLS."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.connections = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, plain: socket.socket) -> None:
        with plain:
            try:
                with self._context.wrap_socket(plain, server_side=True) as connection:
                    self.connections += 1
                    while connection.recv(65536):
                        connection.sendall(answer(200))
            except OSError:
                pass

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        not_installed("openssl")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def listener(certificate: tuple[Path, Path]) -> Iterator[TlsListener]:
    listener = TlsListener(*certificate)
    yield listener
    listener.stop()


def test_a_certificate_of_your_own_is_trusted_when_you_say_so(listener, certificate, connect):
    with connect(listener.url, tls=ssl.create_default_context(cafile=certificate[0])) as client:
        for _ in range(3):
            assert list(client.queues()) == []
    assert listener.connections == 1


def test_a_certificate_that_is_not_trusted_is_refused(listener, connect):
    with connect(listener.url) as client, pytest.raises(Unreachable, match="certificate") as caught:
        list(client.queues())
    assert not caught.value.sent


FORKED = """
import os, ssl, sys
from penstock.client import Client

client = Client(sys.argv[1], tls=ssl.create_default_context(cafile=sys.argv[2]))
assert list(client.queues()) == []
child = os.fork()
if not child:
    try:
        found = list(client.queues())
        client.close()
        os._exit(len(found))
    except BaseException:
        os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert list(client.queues()) == []
client.close()
"""


def test_a_child_leaves_its_parents_connection_as_it_is(listener, certificate):
    command = [sys.executable, "-c", FORKED, listener.url, os.fspath(certificate[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # One of the parent, before and after; one of the child.
    assert listener.connections == 2
