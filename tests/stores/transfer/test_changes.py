"""A source that does not stand still, and a copy that is not right: both are noticed."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock.errors import MigrationFailed, MigrationUnfinished
from penstock.stores import open_sql_store, open_store
from penstock.stores.transfer.comparison import fingerprint
from penstock.stores.transfer.copy import migrate
from penstock.stores.transfer.side import open_side
from tests.stores.transfer.contents import CHANGES, KINDS, change, contents, fill
from tests.stores.transfer.observers import SMALL, Died, Quiet, die


@pytest.mark.parametrize("of", KINDS)
def test_a_fingerprint_notices_everything(of, new_url):
    url = new_url(of)
    fill(url)
    side = open_side(url, must_exist=True, paging=SMALL)
    with closing(side.store):
        last = fingerprint(side)
        for name in CHANGES:
            assert fingerprint(side) == last, name
            change(url, name)
            assert fingerprint(side).text != last.text, name
            last = fingerprint(side)


@pytest.mark.parametrize("name", ["send", "claim", "ack", "create key"])
@pytest.mark.parametrize("at", ["copying ledger rows", "comparing rows"])
def test_a_source_that_changes_meanwhile(at, name, source, new_url):
    target = new_url("sqlite")
    with pytest.raises(MigrationFailed, match="the source has changed: stop every server"):
        migrate(source, target, Quiet(at, lambda: change(source, name)), SMALL)
    with pytest.raises(MigrationUnfinished):
        open_store(target)
    again = Quiet()
    migrate(source, target, again, SMALL)
    assert any("starting over" in text for text in again.said)
    assert contents(target) == contents(source)


def test_a_send_is_noticed_at_once(source, new_url):
    observer = Quiet("copying messages", lambda: change(source, "send"))
    with pytest.raises(MigrationFailed):
        migrate(source, new_url("sqlite"), observer, SMALL)
    assert observer.said[-1] == "copying messages"


@pytest.mark.parametrize("to", KINDS)
def test_what_was_acked_between_two_runs_does_not_come_back(to, source, new_url):
    target = new_url(to)
    with pytest.raises(Died):
        migrate(source, target, Quiet("comparing rows", die), SMALL)
    change(source, "ack")
    again = Quiet("the source has changed since the last run: starting over", die)
    with pytest.raises(Died):
        migrate(source, target, again, SMALL)
    migrate(source, target, Quiet(), SMALL)
    assert contents(target) == contents(source)


@pytest.mark.parametrize("to", KINDS)
def test_a_copy_that_is_not_right_is_found_out(to, source, new_url):
    target = new_url(to)

    def damage() -> None:
        with closing(open_sql_store(target)) as store, store.raw() as raw:
            raw.run("UPDATE message SET body = ? WHERE body = ?", (b"other", b"plain 19"))

    with pytest.raises(MigrationFailed, match=r"the copy is not right .*of .* messages"):
        migrate(source, target, Quiet("comparing rows", damage), SMALL)
    migrate(source, target, Quiet(), SMALL)
    assert contents(target) == contents(source)
