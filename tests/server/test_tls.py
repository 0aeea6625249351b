"""A server that speaks TLS: certificates whose time is not now, and clients that ask for more than a handshake."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from penstock.client import Client
from penstock.server.certificate import complaints
from tests.lacking import path_of
from tests.servers import ServerProcess, ThreadServer
from tests.waiting import wait_until

KEY = "openssl ecparam -name prime256v1 -genkey -noout -out"
SIGNED = "openssl req -x509 -days {days} -subj /CN=x -key {key} -out {out}"


class Maker:
    """Of certificates of one key, made `at` some time from now."""

    def __init__(self, folder: Path) -> None:
        path_of("openssl")
        self._folder = folder
        self.key = folder / "key.pem"
        subprocess.run([*KEY.split(), str(self.key)], check=True, capture_output=True)

    def make(self, at: str = "", days: int = 2) -> Path:
        out = self._folder / f"{len(list(self._folder.iterdir()))}.pem"
        command = SIGNED.format(days=days, key=self.key, out=out).split()
        subprocess.run([path_of("faketime"), "-f", at, *command] if at else command, check=True, capture_output=True)
        return out


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("tls"))


def trusting_anybody(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = version
    return context


def shown(url: str) -> bytes:
    address = urlsplit(url)
    with (
        socket.create_connection((address.hostname, address.port), 30) as raw,
        trusting_anybody().wrap_socket(raw) as tls,
    ):
        return tls.getpeercert(binary_form=True)


def test_a_certificate_whose_time_is_not_now_is_taken_and_warned_of(maker: Maker, tmp_path: Path) -> None:
    """Better than none, or than one that is revoked: it is for its clients to refuse it."""
    expired, good, early = maker.make("-9d"), maker.make(), maker.make("+9d")
    cert = tmp_path / "cert.pem"
    cert.write_bytes(expired.read_bytes())
    server = ServerProcess(tmp_path, "--tls-cert", str(cert), "--tls-key", str(maker.key))
    try:

        def warnings(word: str) -> int:
            return sum(" WARNING " in line and word in line for line in server.log.read_text().splitlines())

        def serves(path: Path) -> bool:
            return shown(server.url) == ssl.PEM_cert_to_DER_cert(path.read_text())

        wait_until(lambda: warnings("has expired, on 20") == 1)
        assert serves(expired)
        for number, path in enumerate((good, early, good, expired), 1):
            cert.write_bytes(path.read_bytes())
            server.process.send_signal(signal.SIGHUP)
            # Said once all is done, and by a server of several processes before each of them has done it.
            wait_until(lambda number=number: server.log.read_text().count("settings are read again") == number)
            wait_until(lambda path=path: all(serves(path) for _ in range(4)))
        wait_until(lambda: (warnings("has expired"), warnings("is not valid yet, but from 20")) == (2, 1))
        with Client(server.url, tls=trusting_anybody()) as client:
            assert client.health() == "green"
    finally:
        server.stop()


class TestComplaints:
    # Later than any that is made now.
    NOW = datetime.now(UTC) + timedelta(hours=1)

    def test_of_a_chain_each_is_looked_at(self, maker: Maker, tmp_path: Path) -> None:
        chain = tmp_path / "chain.pem"
        chain.write_bytes(b"".join(maker.make(at).read_bytes() for at in ("", "-9d", "+9d")))
        expired, early = complaints(str(chain), self.NOW)
        assert expired.startswith(f"certificate 2 of 3 in {chain} has expired, on {self.NOW - timedelta(7):%Y-%m-}")
        assert early.startswith(f"certificate 3 of 3 in {chain} is not valid yet, but from ")

    def test_those_that_outlive_the_short_form_of_a_year(self, maker: Maker) -> None:
        path = str(maker.make(days=40_000))
        assert complaints(path, self.NOW) == []
        [text] = complaints(path, self.NOW + timedelta(40_001))
        assert text.startswith(f"the certificate {path} has expired, on {self.NOW + timedelta(40_000):%Y-%m-}")

    def test_one_of_the_last_century(self, maker: Maker) -> None:
        [text] = complaints(str(maker.make("1975-01-01 00:00:00", days=1)), self.NOW)
        assert "has expired, on 1975-01-02 " in text

    @pytest.mark.parametrize(
        "spoiled", [b"", b"none", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"]
    )
    def test_what_cannot_be_read_is_for_openssl_to_refuse(self, spoiled: bytes, tmp_path: Path) -> None:
        path = tmp_path / "cert.pem"
        assert complaints(str(path), self.NOW) == []
        path.write_bytes(spoiled)
        assert complaints(str(path), self.NOW) == []

    def test_cut_off_anywhere(self, maker: Maker, tmp_path: Path) -> None:
        der = ssl.PEM_cert_to_DER_cert(maker.make().read_text())
        path = tmp_path / "cert.pem"
        for end in range(0, len(der), 3):
            path.write_text(ssl.DER_cert_to_PEM_cert(der[:end]))
            assert complaints(str(path), self.NOW) == []


@pytest.fixture
def server(maker: Maker, tmp_path: Path) -> Iterator[ThreadServer]:
    server = ThreadServer(f"sqlite:///{tmp_path}/x.db", tls_cert=str(maker.make()), tls_key=str(maker.key))
    yield server
    server.stop()


class OpenSsl:
    """`openssl s_client`, which takes a line of one letter for a command."""

    def __init__(self, url: str, *flags: str) -> None:
        command = [path_of("openssl"), "s_client", "-connect", urlsplit(url).netloc, *flags]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, bufsize=0)

    def ask(self, text: bytes) -> None:
        self.process.stdin.write(text)

    def read_until(self, wanted: bytes) -> bytes:
        """Or to the end of what it says."""
        said = b""
        while wanted not in said and (more := self.process.stdout.read(4096)):
            said += more
        return said

    def end(self) -> bytes:
        said = self.process.communicate(timeout=60)[0]
        self.process.wait()
        return said


REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def serves_nobody_else(server: ThreadServer) -> bool:
    with urlopen(f"{server.url}/metrics", context=trusting_anybody()) as answer:
        found = re.findall(rb"^penstock_connections\{.*\} (\d+)$", answer.read(), re.MULTILINE)
    return sum(map(int, found)) == 1


def test_a_client_cannot_renegotiate(server: ThreadServer) -> None:
    """Each would cost the server a whole handshake, and the client next to nothing."""
    client = OpenSsl(server.url, "-tls1_2")
    client.read_until(b"---\n")
    client.ask(b"R\n")
    said = client.read_until(b"no renegotiation") + client.end()
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said
    assert client.process.returncode != 0
    wait_until(lambda: serves_nobody_else(server))


def test_a_client_of_tls_1_3_may_change_its_keys(server: ThreadServer) -> None:
    client = OpenSsl(server.url, "-tls1_3")
    client.read_until(b"Verify return code")
    for _ in range(20):
        client.ask(b"K\n")
        assert b"KEYUPDATE" in client.read_until(b"KEYUPDATE")
    client.ask(REQUEST)
    assert client.read_until(b"green").endswith(b"green")
    client.end()
    wait_until(lambda: serves_nobody_else(server))
