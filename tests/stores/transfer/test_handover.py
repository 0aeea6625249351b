"""Only one of the two stores is used."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from devtools.databases import PASSWORD
from penstock.errors import InvalidSetting, MigrationFailed, StoreHandedOver
from penstock.stores import open_store
from penstock.stores.transfer.copy import migrate, take_back
from tests.stores.transfer.contents import KINDS, change, fill
from tests.stores.transfer.observers import SMALL, Died, Quiet, die


@pytest.mark.parametrize("of", KINDS)
def test_a_store_that_somebody_has_open_is_not_copied(of, new_url):
    """However idle: in this process, or in another."""
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    with closing(open_store(first)), pytest.raises(InvalidSetting, match="a server or another program has the first"):
        migrate(first, second, Quiet())
    hold = """
import sys
from penstock.stores import open_sql_store, open_store
store = open_store(sys.argv[1])
with store.unit(write=False) as unit:
    print(unit.messages.last_seq(), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", hold, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(InvalidSetting, match="a server or another program has the first"):
            migrate(first, second, Quiet())
        holder.stdin.close()
    open_store(first).close()
    assert migrate(first, second, Quiet()).rows


@pytest.mark.parametrize("of", KINDS)
def test_nothing_is_copied_into_a_store_that_somebody_has_open(of, new_url):
    """A server that goes on with it would know neither the keys nor the ids of what is copied."""
    first, second = new_url("sqlite"), new_url(of)
    fill(first)
    with closing(open_store(second)) as used, pytest.raises(InvalidSetting, match="has the second store open"):
        migrate(first, second, Quiet())
    for url in (first, second):
        open_store(url).close()  # no mark is left on either
    assert used.url == second
    assert migrate(first, second, Quiet()).rows


@pytest.mark.parametrize("of", KINDS)
def test_a_store_that_was_copied_is_not_opened_unless_it_is_taken_back(of, new_url):
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    with pytest.raises(Died):
        migrate(first, second, Quiet("copying ledger rows", die), SMALL)
    with pytest.raises(StoreHandedOver, match="is being copied: finish it with 'penstock migrate-store"):
        open_store(first)
    migrate(first, second, Quiet(), SMALL)
    with pytest.raises(StoreHandedOver, match=r"was copied to sqlite:///.* at 20.* UTC: use that one") as told:
        open_store(first)
    assert PASSWORD not in str(told.value)
    assert "--take-back" in str(told.value)
    open_store(second).close()
    take_back(first)
    open_store(first).close()
    with pytest.raises(InvalidSetting, match="nothing to take back"):
        take_back(first)


@pytest.mark.parametrize("of", KINDS)
def test_a_finished_copy_is_compared_again(of, new_url):
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    copied = migrate(first, second, Quiet(), SMALL).rows
    assert migrate(first, second, Quiet(), SMALL).rows == copied
    take_back(first)
    change(first, "send")
    with pytest.raises(MigrationFailed, match="the first store has changed since it was copied"):
        migrate(first, second, Quiet(), SMALL)
    open_store(first).close()
    open_store(second).close()


def test_a_store_is_copied_once(source, new_url):
    migrate(source, new_url("sqlite"), Quiet())
    with pytest.raises(InvalidSetting, match=r"was copied to sqlite:///.* already"):
        migrate(source, new_url("sqlite"), Quiet())
    with pytest.raises(StoreHandedOver):
        open_store(source)
    take_back(source)
    migrate(source, new_url("sqlite"), Quiet())
