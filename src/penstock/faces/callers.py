"""Who sends a request, once that is settled: what `penstock.faces.permission` calls a caller."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from penstock.keys import permits
from penstock.model import Key


class Everyone:
    """The caller while no API key was ever made."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.rules: tuple[str, ...] | None = None

    def may(self, action: str, queue: str) -> bool:  # noqa: ARG002
        return True


class KeyHolder:
    def __init__(self, key: Key) -> None:
        self.name: str | None = key.name
        self.rules: tuple[str, ...] | None = key.rules

    def may(self, action: str, queue: str) -> bool:
        return _permits(self.rules, action, queue)


@lru_cache(8192)
def _permits(rules: tuple[str, ...] | None, action: str, queue: str) -> bool:
    return permits(rules, action, queue)


EVERYONE: Final = Everyone()
