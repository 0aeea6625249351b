"""Databases that are not ours, not there, or not for us: refused in clear words, unchanged, and without a password."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from devtools.databases import PASSWORD, database_of, mariadb_connection
from penstock.errors import InvalidSetting, StoreForeign, StoreUnavailable
from penstock.model import Draft, Settings
from penstock.stores import open_store
from penstock.stores.sql.engines.mariadb import MariaDatabase
from tests.faults.crowd import opened, peek_all
from tests.lacking import lacking
from tests.servers import SERVE

SECRET = "s3cret"


@pytest.fixture(params=["postgres", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run them, each committed by itself, where a store has its tables; the rows of the last."""
    if urlsplit(url).scheme == "mariadb":
        with mariadb_connection(url) as connection, connection.cursor() as rows:
            for statement in statements:
                rows.execute(statement)
            return list(rows.fetchall())
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET search_path = penstock")
        for statement in statements:
            cursor = session.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def tables(url: str) -> list[tuple[Any, ...]]:
    schema = "penstock" if urlsplit(url).scheme == "postgresql" else database_of(url)
    return sorted(
        execute(
            url,
            f"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '{schema}'",
        )
    )


@pytest.mark.parametrize("name", ["invoice", "store", "message"])
def test_tables_of_somebody_else(url: str, name: str) -> None:
    schema = ["CREATE SCHEMA penstock"] if urlsplit(url).scheme == "postgresql" else []
    execute(url, *schema, f"CREATE TABLE {name} (version INT)", f"INSERT INTO {name} VALUES (7)")
    before = tables(url)
    with pytest.raises(StoreForeign, match="nothing was changed"):
        open_store(url)
    assert tables(url) == before
    assert execute(url, f"SELECT * FROM {name}") == [(7,)]


def test_tables_elsewhere_in_the_database_do_not_matter(postgres_url: str) -> None:
    execute(postgres_url, "CREATE TABLE public.message (a INT)", "INSERT INTO public.message VALUES (7)")
    open_store(postgres_url).close()
    assert execute(postgres_url, "SELECT * FROM public.message") == [(7,)]


def test_a_store_made_by_a_newer_program(url: str) -> None:
    open_store(url).close()
    execute(url, "UPDATE store SET schema_version = 99")
    before = tables(url)
    with pytest.raises(StoreForeign, match="newer Penstock"):
        open_store(url)
    assert tables(url) == before
    assert execute(url, "SELECT schema_version FROM store") == [(99,)]


def test_a_schema_in_which_we_may_create_nothing(postgres_url: str) -> None:
    execute(postgres_url, "CREATE SCHEMA penstock", "REVOKE CREATE ON SCHEMA penstock FROM CURRENT_USER")
    if execute(postgres_url, "SELECT rolsuper FROM pg_roles WHERE rolname = CURRENT_USER") == [(True,)]:
        lacking("the user of the database may do everything")
    with pytest.raises(InvalidSetting, match="permission denied"):
        open_store(postgres_url)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding(shared_postgres: Any, encoding: str) -> None:
    url = shared_postgres.new_url(f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(InvalidSetting, match=f"{encoding}; Penstock needs UTF8"):
            open_store(url)
        assert tables(url) == []
    finally:
        shared_postgres.drop(url)


def test_many_open_an_empty_database_at_once(url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: open_store(url), range(8)))
    assert len({store.secret for store in stores}) == 1
    assert len(execute(url, "SELECT * FROM store")) == 1
    for store in stores:
        store.close()


def test_two_schemas_of_one_database_are_two_stores(postgres_url: str) -> None:
    hostile = 'Zwei"; DROP SCHEMA penstock; --'
    one, two = postgres_url, f"{postgres_url}?schema={hostile.replace(' ', '%20').replace(';', '%3B')}"
    for url in (one, two, two):
        with opened(url) as store, store.unit() as unit:
            if unit.find_queue("q") is None:
                unit.create_queue("q", Settings(), 1)
            unit.send("q", [Draft(url.encode())], 1)
    with opened(one) as store, store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [one.encode()]
        secret = store.secret
    with opened(two) as store, store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [two.encode()] * 2
        assert store.secret != secret


def test_a_schema_name_that_would_be_cut_off(postgres_url: str) -> None:
    for name in ("x" * 64, "ü" * 32, ""):
        with pytest.raises(InvalidSetting, match="63 bytes"):
            open_store(f"{postgres_url}?schema={name}")
    with pytest.raises(InvalidSetting, match="pg_"):
        open_store(f"{postgres_url}?schema=pg_mine")


ODD_PLACES = [
    f"user:{SECRET}@more@127.0.0.1:1/d",
    f"user:1/{SECRET}@127.0.0.1:1/d",
    f"user:a?{SECRET}@127.0.0.1:1/d",
    f"user:a#{SECRET}@127.0.0.1:1/d",
    f"user:{SECRET}%@127.0.0.1:1/d",
    f"user:{SECRET}%zz@127.0.0.1:1/d",
    f"user:{SECRET}%00@127.0.0.1:1/d",
    f"user:{SECRET}\udcff@127.0.0.1:1/d",
    f"user:{SECRET}@[::1/d",
    f"user:{SECRET}@127.0.0.1:port/d",
    f"user:{SECRET}@127.0.0.1:99999/d",
    f"user:{SECRET}@127.0.0.1:1/d%00",
    f"user:{SECRET}@127.0.0.1:1,127.0.0.1:2/d",
    f"user:{SECRET}@127.0.0.1:1,[::1]:2/d",
    f"user:{SECRET}@127.0.0.1:1,/d",
    f"user:{SECRET}@127.0.0.1:1,127.0.0.1:port/d",
    f"user:{SECRET}@127.0.0.1:1,[::1:2/d",
    f"user:{SECRET},@127.0.0.1:1,other@127.0.0.1:2/d",
    f"user:{SECRET}@127.0.0.1:1/d?such=no",
    f"user:{SECRET}@127.0.0.1:1/d",
    f"user:{SECRET}@no-such-host.invalid/d",
]


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
@pytest.mark.parametrize("rest", ODD_PLACES, ids=ascii)
def test_an_address_that_cannot_be_used_is_told_without_its_password(scheme: str, rest: str) -> None:
    with pytest.raises((InvalidSetting, StoreUnavailable)) as told:
        open_store(f"{scheme}://{rest}")
    assert str(told.value)
    assert SECRET not in str(told.value)


def test_a_password_in_any_alphabet() -> None:
    """MariaDB compares the bytes of UTF-8."""
    database = MariaDatabase("mariadb://us%C3%A9r:p%C3%A4ss%E6%97%A5%40@127.0.0.1:1/d")
    assert (database._options["user"], database._options["password"]) == ("usér", "päss日@".encode())
    with pytest.raises(StoreUnavailable):
        database.connection()


def test_a_server_that_cannot_reach_its_database_says_so_and_ends(url: str, tmp_path: Path) -> None:
    at = urlsplit(url)
    there = f"127.0.0.1:{at.port}"
    unreadable = f"{at.scheme}://penstock:{SECRET}@{SECRET}@{there}/{at.path[1:]}"
    stores = {
        f"{at.scheme}://penstock:{SECRET}@{there}{at.path}": r"denied|authentication failed",
        at._replace(path="/penstock_no_such").geturl(): "penstock_no_such",
        f"{at.scheme}://penstock:{SECRET}@127.0.0.1:1{at.path}": "refused",
        unreadable: "%40 for @",
    }

    def serve(store: str) -> subprocess.CompletedProcess[str]:
        command = [*SERVE, "--port", "0", "--store", store]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)

    with ThreadPoolExecutor(4) as pool:
        for ended, cause in zip(pool.map(serve, stores), stores.values(), strict=True):
            assert ended.returncode in (2, 4), ended
            told = ended.stdout + ended.stderr
            assert re.search(cause, told), told
            assert [text for text in ("Traceback", SECRET, at.password or SECRET, PASSWORD) if text in told] == []
