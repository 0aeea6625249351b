"""Word between servers on one PostgreSQL database, where it may get lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from penstock.stores.protocol import EVERYWHERE
from penstock.stores.sql.engines.postgresql import NoticeWatch, PostgresDatabase
from tests.faults.sessions import cut_off, listening
from tests.waiting import wait_until

CHANNEL = "word"


Incidents = dict[str, Callable[[psycopg.Connection], object]]


class Wire:
    """A connection to which something happens before it speaks (`execute`) or hears (`notifies`) next, once."""

    def __init__(self, connection: psycopg.Connection, incidents: Incidents) -> None:
        self._connection = connection
        self._incidents = incidents

    def __getattr__(self, name: str) -> Any:
        if name in self._incidents:
            self._incidents.pop(name)(self._connection)
        return getattr(self._connection, name)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@pytest.fixture
def watch(postgres_url: str) -> Iterator[Callable[..., NoticeWatch]]:
    database = PostgresDatabase(postgres_url)
    database.prepare()
    started: list[NoticeWatch] = []

    def start(incidents: Incidents | None = None) -> NoticeWatch:
        """One that listens already, and has told so."""
        others = len(listening(postgres_url))
        connect = database.connection if incidents is None else lambda: Wire(database.connection(), incidents)
        started.append(NoticeWatch(connect, CHANNEL))
        wait_until(lambda: len(listening(postgres_url)) > others)
        assert heard(started[-1]) is EVERYWHERE
        return started[-1]

    yield start
    for watch in started:
        watch.close()


def heard(watch: NoticeWatch) -> object:
    """What it hears next. Should it sleep without need, it would sleep for longer than this."""
    changes: list[object] = []
    wait_until(lambda: changes.append(watch.changed()) or changes[-1], seconds=20)
    return changes[-1]


def test_others_hear_and_the_teller_does_not(watch: Callable[..., NoticeWatch]) -> None:
    teller, one, two = watch(), watch(), watch()
    teller.tell({"a", "dedupq/b"})
    assert heard(one) == heard(two) == {"a", "dedupq/b"}
    assert teller.changed() == one.changed() == ()


@pytest.mark.parametrize("letter", ["a", "ü"])
def test_too_many_queues_to_tell_are_all_queues(watch: Callable[..., NoticeWatch], letter: str) -> None:
    """The limit is in bytes."""
    teller, listener = watch(), watch()
    teller.tell({f"{letter * 195}{number:05}" for number in range(30 if letter == "ü" else 60)})
    assert heard(listener) is EVERYWHERE
    teller.tell({"next"})
    assert heard(listener) == {"next"}


def test_what_cannot_be_understood_means_all_queues(watch: Callable[..., NoticeWatch], postgres_url: str) -> None:
    listener = watch()
    with psycopg.connect(postgres_url, autocommit=True) as stranger:
        for payload in ("", "{", "[1]", "hello"):
            stranger.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
            assert heard(listener) is EVERYWHERE
        stranger.execute("SELECT pg_notify(%s, %s)", (CHANNEL, '["q"]'))
    assert heard(listener) == {"q"}


def test_word_that_came_when_the_connection_broke_is_passed_on(watch: Callable[..., NoticeWatch]) -> None:
    incidents: Incidents = {}
    teller, listener = watch(incidents), watch()
    incidents["notifies"] = lambda connection: connection.close()
    teller.tell({"q"})
    assert heard(listener) == {"q"}
    wait_until(lambda: not incidents)


def test_word_is_told_again_where_the_connection_broke_over_it(watch: Callable[..., NoticeWatch]) -> None:
    incidents: Incidents = {}
    teller, listener = watch(incidents), watch()
    incidents["execute"] = lambda connection: connection.close()
    teller.tell({"q"})
    assert heard(listener) == {"q"}
    assert not incidents


def test_word_that_comes_while_we_speak_is_heard_at_once(watch: Callable[..., NoticeWatch], postgres_url: str) -> None:
    """The driver takes it in along with the answer to what we said, and then there is nothing left to wake up for."""
    incidents: Incidents = {}
    listener = watch(incidents)

    def interrupt(_connection: psycopg.Connection) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_notify(%s, %s)", (CHANNEL, '["theirs"]'))

    incidents["execute"] = interrupt
    listener.tell({"ours"})
    assert heard(listener) == {"theirs"}


@pytest.mark.usefixtures("many_files")
def test_a_process_with_thousands_of_descriptors(watch: Callable[..., NoticeWatch], postgres_url: str) -> None:
    taken: list[int] = []
    try:
        while not taken or taken[-1] < 1_100:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        teller, listener = watch(), watch()
        for _ in range(2):
            teller.tell({"q"})
            assert heard(listener) == {"q"}
            cut_off(postgres_url)
            assert heard(listener) is EVERYWHERE
    finally:
        for descriptor in taken:
            os.close(descriptor)
