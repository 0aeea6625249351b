"""Who is told of requests that were answered. The edge writes no log itself."""

from __future__ import annotations

from typing import Protocol

from penstock.edge.http import Request, Response
from penstock.edge.router import Client


class Journal(Protocol):
    def note(self, request: Request, response: Response, seconds: float, client: Client) -> None:
        """Where every request is wanted."""

    def note_failure(self, request: Request) -> None:
        """One that is about to be answered 500."""
