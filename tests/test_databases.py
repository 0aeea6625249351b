"""The tests' own database servers: what the tests of crashes and hangs rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from devtools.databases import (
    MariadbDatabases,
    NotInstalled,
    PostgresDatabases,
    Server,
    binary,
    database_of,
    mariadb_connection,
    stat_of,
)
from tests.databases import required
from tests.waiting import wait_until

BOTH = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


@pytest.fixture
def own(kind: str, request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(f"own_{kind}")
    return server


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run them, each committed by itself; the rows of the last."""
    if urlsplit(url).scheme == "postgresql":
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall()
    with mariadb_connection(url) as connected, connected.cursor() as rows:
        for statement in statements:
            rows.execute(statement)
        return list(rows.fetchall())


@BOTH
def test_a_committed_row_outlives_a_crash_and_a_stop(own: Server) -> None:
    url = own.new_url()
    execute(url, "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (7)", "SELECT 1")
    own.kill()
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
        execute(url, "SELECT 1")
    own.start()
    assert execute(url, "SELECT a FROM t") == [(7,)]
    own.stop()
    own.start()
    assert execute(url, "SELECT a FROM t") == [(7,)]


@BOTH
def test_a_crash_ends_every_process_at_once(own: Server) -> None:
    url = own.new_url()
    # A session has a process of its own in PostgreSQL, which must not get to the end of its statement.
    slow = "SELECT pg_sleep(60)" if own.kind == "postgresql" else "SELECT SLEEP(60)"
    session = subprocess.Popen(
        [sys.executable, "-c", f"from tests.test_databases import execute; execute({url!r}, {slow!r})"],
        stderr=subprocess.DEVNULL,
    )
    column = "query FROM pg_stat_activity" if own.kind == "postgresql" else "info FROM information_schema.processlist"
    wait_until(lambda: (slow,) in execute(url, f"SELECT {column}"))
    own.kill()
    assert session.wait(20) == 1
    own.start()


@BOTH
def test_a_paused_server_hangs_until_it_is_resumed(own: Server) -> None:
    url = own.new_url()
    own.pause()
    program = f"from tests.test_databases import execute; print(execute({url!r}, 'SELECT 5'))"
    client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(1.5)
    own.resume()
    assert client.communicate(timeout=20)[0] == "[(5,)]\n"


@BOTH
def test_a_paused_or_dead_server_can_be_closed(own: Server) -> None:
    url = own.new_url()
    own.pause()
    paused = own.pid
    own.stop()
    assert stat_of(paused)[0] in "ZX"
    own.start()
    assert execute(url, "SELECT 5") == [(5,)]
    killed = own.pid
    own.kill()
    assert stat_of(killed)[0] in "ZX"  # and the fixture closes it


@BOTH
@pytest.mark.parametrize("paused", [False, True])
def test_a_server_ends_with_its_owner(kind: str, paused: bool, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(f"shared_{kind}")  # to skip where there is none
    name = {"postgres": "PostgresServer", "mariadb": "MariadbServer"}[kind]
    program = f"""
from devtools.databases import {name}
server = {name}(durable=False)
server.start()
if {paused}: server.pause()
print(server.pid, server.folder, flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as owner:
        assert owner.stdout
        pid, folder = owner.stdout.readline().split()
        assert stat_of(int(pid))[0] not in "ZX"
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: stat_of(int(pid))[0] in "ZX" and not Path(folder).exists())


@BOTH
def test_each_url_is_an_empty_database_of_its_own(kind: str, request: pytest.FixtureRequest) -> None:
    server, first = request.getfixturevalue(f"shared_{kind}"), request.getfixturevalue(f"{kind}_url")
    second = server.new_url()
    execute(first, "CREATE TABLE t (a INT)", "SELECT 1")
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('public', '{}')"
    assert execute(first, tables.format(database_of(first))) == [("t",)]
    assert execute(second, tables.format(database_of(second))) == []
    server.drop(second)
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError), match=database_of(second)):
        execute(second, "SELECT 1")


@BOTH
def test_a_database_is_dropped_under_an_open_transaction(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(f"shared_{kind}")
    url = server.new_url()
    execute(url, "CREATE TABLE t (a INT)", "SELECT 1")
    connection = psycopg.connect(url) if kind == "postgres" else mariadb_connection(url)
    try:
        cursor = connection.cursor()
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (1)")
        server.drop(url)
    finally:
        connection.close()


@BOTH
def test_a_wrong_password_does_not_do(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError), match=r"(?i)password"):
        execute(url.replace(":" + urlsplit(url).password, ":wrong"), "SELECT 1")


def test_an_own_server_is_durable(own_postgres: Server, own_mariadb: Server) -> None:
    assert execute(own_postgres.url, "SHOW fsync") == [("on",)]
    assert execute(own_mariadb.url, "SELECT @@innodb_flush_log_at_trx_commit, @@innodb_flush_method") == [
        (1, "O_DIRECT")
    ]


def test_without_a_server_a_person_skips_and_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match=r"some-package is not installed .*or set X to the URL"),
        required("X"),
    ):
        binary("no-such-server", "some-package")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="some-package is not installed"), required():
        raise NotInstalled("some-package")


@BOTH
def test_a_server_that_runs_elsewhere_can_be_used(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(f"shared_{kind}")
    with PostgresDatabases(server.url) if kind == "postgres" else MariadbDatabases(server.url) as databases:
        url = databases.new_url()
        assert execute(url, "SELECT 1") == [(1,)]
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
        execute(url, "SELECT 1")
