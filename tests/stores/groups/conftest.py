"""Messages of groups: the first letter of a body names its group, and a body that begins with "-" has none."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model import Draft, Groups, Message, Sent
from penstock.stores import Store
from tests.stores.conftest import Verbs


def draft(text: str, **more: Any) -> Draft:
    return Draft(text.encode(), group=None if text.startswith("-") else text[0], **more)


class LineVerbs(Verbs):
    """The verbs, with bodies as one text: `put("a1 a2 b1")`, and `take() == "a1 a2"`."""

    def create_fifo(self, name: str = "q", **settings: Any) -> None:
        self.create(name, groups=Groups.FIFO, **settings)

    def put(self, texts: str, to: str = "q") -> list[Sent]:
        return self.send(*map(draft, texts.split()), to=to)

    def take(self, limit: int = 100, hold_ms: int | None = None, queue: str = "q") -> str:
        return shown(self.claim(limit, hold_ms, queue))

    def there(self, queue: str = "q") -> str:
        """What is in a queue, by age, in any state."""
        return shown(sorted(self.peek(queue), key=lambda message: message.seq))


def shown(messages: list[Message]) -> str:
    return " ".join(message.body.decode() for message in messages)


@pytest.fixture
def verbs(store: Store) -> LineVerbs:
    return LineVerbs(store)


@pytest.fixture
def lines(verbs: LineVerbs) -> LineVerbs:
    """An empty queue "q" with groups, whose claims last a second."""
    verbs.create_fifo(visibility_ms=1_000)
    return verbs
