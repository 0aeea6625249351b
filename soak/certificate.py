"""Certificates for servers of the campaign, by `openssl`."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

from soak.fault import Lacking

_REQUEST = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"


class Certificate:
    """A certificate and its key, in two files that a server reads. Made `again`, they are others in the same files."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            raise Lacking("openssl is not installed")
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.again()

    def again(self, days: int = 2, name: str = "127.0.0.1") -> None:
        new = [path.with_suffix(".new") for path in (self.cert, self.key)]
        options = [
            "-addext",
            f"subjectAltName=IP:{name}",
            "-days",
            str(days),
            "-out",
            str(new[0]),
            "-keyout",
            str(new[1]),
        ]
        subprocess.run([*_REQUEST.split(), *options], check=True, capture_output=True)
        for made, path in zip(new, (self.cert, self.key), strict=True):
            made.replace(path)

    @property
    def flags(self) -> tuple[str, ...]:
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)


def trusting_anybody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
