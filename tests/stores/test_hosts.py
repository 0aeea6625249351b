"""Addresses with several hosts: tried in turn, the one that was found last first."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from devtools.databases import database_of
from penstock.errors import InvalidSetting, StoreUnavailable
from penstock.stores.sql.engines.hosts import Hosts, address, host_and_port
from penstock.stores.sql.engines.mariadb import MariaDatabase
from penstock.stores.sql.engines.postgresql import PostgresDatabase


class Places:
    """Which of them can be used, and which were tried."""

    def __init__(self, *usable: int) -> None:
        self.usable = set(usable)
        self.tried: list[int] = []

    def connect(self, number: int) -> int:
        self.tried.append(number)
        if number not in self.usable:
            raise StoreUnavailable(f"no {number}")
        return number


def test_the_one_that_was_found_last_is_tried_first() -> None:
    hosts = Hosts(3)
    places = Places(1, 2)
    assert [hosts.find(places.connect), hosts.find(places.connect)] == [1, 1]
    assert places.tried == [0, 1, 1]
    places = Places(0)
    assert hosts.find(places.connect) == 0
    assert places.tried == [1, 0]
    places = Places()
    with pytest.raises(StoreUnavailable, match="no 0; no 1; no 2"):
        hosts.find(places.connect)


def test_an_error_that_another_host_does_not_mend_is_told_at_once() -> None:
    def connect(number: int) -> int:
        raise InvalidSetting(f"wrong at {number}")

    with pytest.raises(InvalidSetting, match="wrong at 0"):
        Hosts(2).find(connect)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("mariadb://u:p@a/d", ["a"]),
        ("mariadb://u:p,q@a:1,b,[::1]:3/d?x=,", ["a:1", "b", "[::1]:3"]),
        ("postgresql://a,b/d?user=x%40y", ["a", "b"]),
        ("postgresql:///d?host=a,b", [""]),
    ],
)
def test_hosts_of_an_address(url: str, hosts: list[str]) -> None:
    assert address(url).hosts == hosts
    assert address(url).parts.path == "/d"


def test_a_host_and_its_port() -> None:
    assert host_and_port("a", 7) == ("a", 7)
    assert host_and_port("[::1]:8", 7) == ("::1", 8)
    assert [host_and_port(odd, 7) for odd in ("", ":8", "a:b", "a:0", "a:99999", "u@a")] == [None] * 6


def test_a_store_is_found_behind_hosts_that_are_not_there(postgres_url: str, mariadb_url: str) -> None:
    for url, kind in ((postgres_url, PostgresDatabase), (mariadb_url, MariaDatabase)):
        at = urlsplit(url)
        there = at.netloc.rpartition("@")
        for hosts in (f"127.0.0.1:1,127.0.0.1:2,{there[2]}", f"{there[2]},127.0.0.1:1"):
            database = kind(f"{at.scheme}://{there[0]}@{hosts}/{database_of(url)}")
            assert database.exists() in (True, False)
            database.prepare()
            assert database.exists()
        with pytest.raises(StoreUnavailable, match=r"refused.*refused"):
            kind(f"{at.scheme}://{there[0]}@127.0.0.1:1,127.0.0.1:2/{database_of(url)}").connect()


def test_several_hosts_of_postgresql_are_asked_for_one_that_can_be_written_to(postgres_url: str) -> None:
    at = urlsplit(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {database_of(postgres_url)} SET default_transaction_read_only = on".encode()
        )
    twice = at._replace(netloc=f"{at.netloc},{at.netloc.rpartition('@')[2]}").geturl()
    with pytest.raises(StoreUnavailable, match="read-only"):
        PostgresDatabase(twice).connect()
    with pytest.raises(InvalidSetting, match="read-write or primary"):
        PostgresDatabase(f"{twice}?target_session_attrs=any")
