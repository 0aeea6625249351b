"""The command `aws`, as a shell runs it."""

from __future__ import annotations

import subprocess

from tests.sqs_clients.environments import NEWEST, environ, program


def aws_sqs(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`aws --endpoint-url URL sqs …`."""
    # By its Python: the program's first line names an absolute path, which a folder that was moved does not have.
    command = [program(NEWEST, "python"), program(NEWEST, "aws"), "--endpoint-url", url, "sqs", *words]
    return subprocess.run(command, env=environ(**variables), capture_output=True, text=True)
