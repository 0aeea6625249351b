"""Whether a store can be written to, shown without a change."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock.errors import StoreUnavailable
from penstock.stores import open_store
from tests.stores.conftest import Verbs


def test_nothing_is_changed(store):
    verbs = Verbs(store)
    verbs.create()
    verbs.send(b"1", b"2")
    before = verbs.peek(), store.secret
    for _ in range(3):
        with store.unit() as unit:
            unit.prove_writable()
    assert (verbs.peek(), store.secret) == before


@pytest.mark.parametrize("name", ["sqlite", "postgres", "mariadb"])
def test_a_database_that_may_only_be_read(name, request, tmp_path):
    url = f"sqlite:///{tmp_path}/p.db" if name == "sqlite" else request.getfixturevalue(f"{name}_url")
    only_read = {
        "sqlite": "PRAGMA query_only = ON",
        "postgres": "SET default_transaction_read_only = on",
        "mariadb": "SET SESSION TRANSACTION READ ONLY",
    }[name]
    with closing(open_store(url, lanes=1)) as store:
        with store.unit(write=False) as unit:
            unit.session.engine.run(only_read)
        with pytest.raises(StoreUnavailable), store.unit() as unit:
            unit.prove_writable()
