"""Every statement as each database gets it: one file for each in `statements/`, to be read and compared.

After a change of a statement, renew them with `.venv-dev/bin/python -m tests.stores.test_statements`, and read what has
changed for each database.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.stores.sql.engines import mariadb, postgresql, sqlite
from penstock.stores.sql.statements import Statements, named
from penstock.stores.sql.unit import TABLES

FOLDER = Path(__file__).parent / "statements"
DATABASES: dict[str, tuple[Statements, type]] = {
    "sqlite": (sqlite.STATEMENTS, sqlite.SqliteSql),
    "postgresql": (postgresql.STATEMENTS, postgresql.PostgresSql),
    "mariadb": (mariadb.STATEMENTS, mariadb.MariaSql),
}
# Of texts that ask the same up to twenty times, two show how it goes on.
SHOWN = 2


def all_statements(database: str) -> dict[str, str]:
    """By table and name, those of the verbs first."""
    statements, own = DATABASES[database]
    return {f"{table.__name__}.{name}": text for table in (*TABLES, own) for name, text in named(statements.of(table))}


def shown(database: str) -> str:
    parts = [
        f"-- {name}\n{text};\n"
        for name, text in all_statements(database).items()
        if not (index := re.search(r"\[(\d+)\]", name)) or int(index[1]) < SHOWN
    ]
    return "\n".join(parts)


@pytest.mark.parametrize("database", DATABASES)
def test_statements_are_those_that_were_read(database):
    assert shown(database) == (FOLDER / f"{database}.sql").read_text()


@pytest.mark.parametrize("database", DATABASES)
def test_nothing_is_left_to_be_filled_in(database):
    for name, text in all_statements(database).items():
        assert not re.search(r"[{}]", text), name
        assert ("?" in text) <= (database == "sqlite"), name


@pytest.mark.parametrize("database", DATABASES)
def test_a_table_is_rendered_once(database):
    statements, own = DATABASES[database]
    assert all(statements.of(table) is statements.of(table) for table in (*TABLES, own))


def renew() -> None:
    FOLDER.mkdir(exist_ok=True)
    for database in DATABASES:
        (FOLDER / f"{database}.sql").write_text(shown(database))


if __name__ == "__main__":
    renew()
