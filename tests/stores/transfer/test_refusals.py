"""What cannot be copied, or copied to, is refused and left as it was."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import InvalidSetting, MigrationUnfinished, StoreUnavailable
from penstock.stores import open_sql_store, open_store
from penstock.stores.transfer.copy import migrate
from penstock.stores.transfer.marks import MIGRATION, Migration, without_password
from tests.stores.conftest import Verbs
from tests.stores.transfer.contents import KINDS, contents, fill
from tests.stores.transfer.observers import SMALL, Died, Quiet, die


@pytest.mark.parametrize("url", ["memory://", "mqcore:///{folder}/mq", "redis://here", "nonsense"])
def test_only_full_stores(url, source, new_url, tmp_path):
    url = url.format(folder=tmp_path)
    target = new_url("sqlite")
    for pair in ((url, target), (source, url)):
        with pytest.raises(InvalidSetting, match="cannot be migrated"):
            migrate(*pair, Quiet())
    assert not Path(target.removeprefix("sqlite:///")).exists()
    assert not (tmp_path / "mq").exists()


def test_a_source_that_is_not_there(new_url, tmp_path):
    target = new_url("sqlite")
    with pytest.raises(InvalidSetting, match="there is no store at"):
        migrate(f"sqlite:///{tmp_path}/mistyped.db", target, Quiet())
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        migrate("postgresql://127.0.0.1:1/nowhere", target, Quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("of", KINDS)
def test_a_source_without_anything(of, new_url):
    empty, target = new_url(of), new_url("sqlite")
    open_store(empty).close()
    with pytest.raises(InvalidSetting, match="nothing to copy"):
        migrate(empty, target, Quiet())
    open_store(target).close()


def test_the_same_store_twice(source, tmp_path):
    before = contents(source)
    (tmp_path / "link").symlink_to(tmp_path)
    for target in (source, source.replace(str(tmp_path), f"{tmp_path}/link")):
        with pytest.raises(InvalidSetting, match="both are the same store"):
            migrate(source, target, Quiet())
    assert contents(source) == before


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("what", ["queue", "API key"])
def test_a_target_with_something_in_it(what, to, source, new_url):
    target = new_url(to)
    with closing(open_store(target)) as store:
        verbs = Verbs(store)
        if what == "queue":
            verbs.create("q")
            verbs.send(b"here already")
        else:
            verbs.create_key()
    before = contents(target)
    with pytest.raises(InvalidSetting, match=f"the target is not empty: it holds at least one {what}"):
        migrate(source, target, Quiet())
    assert contents(target) == before


def test_the_half_of_another_copy(source, new_url):
    other, target = new_url("sqlite"), new_url("sqlite")
    fill(other)
    with pytest.raises(Died):
        migrate(source, target, Quiet("copying ledger rows", die), SMALL)
    with pytest.raises(InvalidSetting, match="unfinished copy of another store, sqlite:///"):
        migrate(other, target, Quiet(), SMALL)
    with pytest.raises(MigrationUnfinished):
        migrate(target, new_url("sqlite"), Quiet(), SMALL)
    migrate(source, target, Quiet(), SMALL)
    assert contents(target) == contents(source)


def test_a_mark_without_its_row(new_url, source):
    """What a kill leaves in MariaDB, which commits a new table at once."""
    target = new_url("mariadb")
    with closing(open_sql_store(target)) as store, store.raw() as raw:
        MIGRATION.put(raw, Migration("", "", "", ""))
        raw.run("DELETE FROM migration")
    with pytest.raises(MigrationUnfinished, match="unfinished copy of FROM"):
        open_store(target)
    migrate(source, target, Quiet())
    assert contents(target) == contents(source)


def test_passwords_stay_out_of_the_mark():
    assert without_password("mariadb://me:secret@db:1/q?ssl_ca=x") == "mariadb://db:1/q"
    assert without_password("postgresql://me:se,cret@a:1,[::1]:2,b/q?x=@y") == "postgresql://a:1,[::1]:2,b/q"
    assert without_password("sqlite:////ü/a.db") == "sqlite:////\\xfc/a.db"
