"""The keys that a server knows, where lists of them come late, in another order, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import StoreUnavailable
from penstock.keys import Keyring, digest
from penstock.model import Key
from penstock.pending import Pending
from penstock.server.keys import KeyWatch
from penstock.timings import Timings

SECRET = b"of the store"


def key(name: str) -> Key:
    return Key(name, digest(SECRET, name.encode()), ("queue|*|*",), 0, None)


class Lists:
    """A broker whose lists of keys come when a test says so."""

    def __init__(self) -> None:
        self.keys = self
        self.asked: list[Pending[list[Key]]] = []

    def list(self, patient: bool = False) -> Pending[list[Key]]:
        assert patient
        self.asked.append(Pending())
        return self.asked[-1]


class Watched:
    def __init__(self) -> None:
        self.keyring = Keyring(SECRET, [key("old")])
        self.lists = Lists()
        self.told: list[int] = []
        self.watch = KeyWatch(self.keyring, self.lists, asyncio.get_running_loop(), Timings(keys_s=0.001))

    def look(self) -> Pending[list[Key]]:
        """What it asks for at once, as another process has changed the keys."""
        number = len(self.lists.asked)
        self.watch.look_now(lambda: self.told.append(number))
        return self.lists.asked[number]

    def knows(self, name: str) -> bool:
        return self.keyring.find(name.encode()) is not None


@pytest.fixture
async def watched():
    watched = Watched()
    yield watched
    watched.watch.stop()


async def test_a_list_that_comes_after_a_later_one_changes_nothing(watched: Watched) -> None:
    early, late = watched.look(), watched.look()
    late.resolve([key("new")])
    assert watched.told == [0, 1]
    early.resolve([key("old")])
    assert (watched.knows("old"), watched.knows("new")) == (False, True)


async def test_a_list_from_before_the_question_does_not_answer_it(watched: Watched) -> None:
    early, late = watched.look(), watched.look()
    early.resolve([key("old")])
    assert watched.told == [0]
    late.resolve([key("new")])
    assert watched.told == [0, 1]


async def test_a_list_that_a_change_here_has_overtaken_is_read_again_for_those_who_wait(watched: Watched) -> None:
    overtaken = watched.look()
    watched.keyring.admit(key("ours"))
    overtaken.resolve([])
    assert watched.told == []
    assert watched.knows("old")
    watched.lists.asked[-1].resolve([key("ours")])
    assert watched.told == [0]
    assert (watched.knows("old"), watched.knows("ours")) == (False, True)


async def test_a_list_that_cannot_be_read_is_asked_for_again_for_those_who_wait(watched: Watched) -> None:
    watched.look().reject(StoreUnavailable("for a moment"))
    assert watched.told == []
    while len(watched.lists.asked) < 2:
        await asyncio.sleep(0.001)
    watched.lists.asked[-1].resolve([key("new")])
    assert watched.told == [0]


async def test_however_often_it_looks_one_look_follows(watched: Watched) -> None:
    for pending in [watched.look() for _ in range(10)]:
        pending.resolve([key("new")])
    while len(watched.lists.asked) < 11:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert len(watched.lists.asked) == 11
