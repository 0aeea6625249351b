"""A private object store for tests: the S3 API on loopback, as `moto` serves it, in a process and on a port of its own.

It keeps everything in memory, asks for no credentials although clients must have some, and ends with the thread that
started it, however that ends. What it holds is told here by plain HTTP: by nothing that writes to it.
"""

from __future__ import annotations

import http.client
import secrets
import shutil
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from devtools.programs import Program

_SERVER = Path(__file__).parents[1] / ".venv-lakes" / "bin" / "moto_server"
# It looks for a signature, and does not read it.
_SIGNED = "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request"
_S3 = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class NotInstalled(Exception):
    """There is nothing to run."""


def environ_for(url: str) -> dict[str, str]:
    """With what clients of S3 find a store at this address."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class ObjectStore:
    """Raises NotInstalled."""

    def __init__(self, folder: Path) -> None:
        if not _SERVER.exists() or shutil.which("setpriv") is None:
            raise NotInstalled("moto_server or setpriv is not installed")
        command = ("setpriv", "--pdeathsig", "KILL", str(_SERVER), "-H", "127.0.0.1", "-p", "0")
        self._program = Program(folder, "object-store", *command)
        self.url = self._program.wait_for(r"Running on (http://\S+)")

    @property
    def environ(self) -> dict[str, str]:
        return environ_for(self.url)

    def new_bucket(self) -> str:
        name = f"bucket-{secrets.token_hex(6)}"
        self._ask("PUT", f"/{name}")
        return name

    def objects(self, bucket: str) -> dict[str, bytes]:
        """All that a reader sees: names and what is there."""
        return {name: self._ask("GET", f"/{bucket}/{quote(name)}") for name in self.names(bucket)}

    def names(self, bucket: str) -> list[str]:
        listed = ElementTree.fromstring(self._ask("GET", f"/{bucket}?list-type=2"))
        assert listed.findtext(f"{_S3}IsTruncated") == "false", "more objects than are listed at once"
        return [str(name.text) for name in listed.iter(f"{_S3}Key")]

    def remove(self, bucket: str, name: str) -> None:
        self._ask("DELETE", f"/{bucket}/{quote(name)}")

    def close(self) -> None:
        self._program.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=300)
        try:
            connection.request(method, path, headers={"Authorization": _SIGNED})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {data!r}"
        return data
