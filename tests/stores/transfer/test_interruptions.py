"""A transfer may die at any point: the next one continues."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from penstock.errors import MigrationUnfinished
from penstock.stores import open_sql_store, open_store
from penstock.stores.transfer import copy
from penstock.stores.transfer.copy import migrate, take_back
from tests.stores.conftest import Verbs
from tests.stores.transfer.contents import KINDS, contents
from tests.stores.transfer.observers import SMALL, Died, Quiet, die
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # a copy for each of many steps takes its time on a busy machine


def test_it_may_die_at_any_step(source, new_url):
    before = contents(source)
    for step in count(1):
        target = new_url("sqlite")
        try:
            migrate(source, target, Quiet(step, die), SMALL)
        except Died:
            pass
        else:
            break
        if step > 1:  # the first is before the mark
            with pytest.raises(MigrationUnfinished, match="finish it with 'penstock migrate-store sqlite://"):
                open_store(target)
        again = Quiet()
        migrate(source, target, again, SMALL)
        assert contents(target) == before
        assert "the source has changed since the last run: starting over" not in again.said
        take_back(source)
    assert step > 40
    assert contents(source) == before


@pytest.mark.parametrize("to", KINDS)
def test_it_may_die_again_and_again(to, source, new_url):
    target = new_url(to)
    for step in count(2):
        try:
            migrate(source, target, Quiet(step, die), SMALL)
        except Died:
            with pytest.raises(MigrationUnfinished):
                open_store(target)
        else:
            break
    assert step > 10
    assert contents(target) == contents(source)


ROOT = Path(__file__).parents[3]
# It does not come to the fifth of five pages, however late it is killed.
TELLING = """
import signal, sys
from penstock.stores.transfer.copy import migrate
from tests.stores.transfer.observers import Quiet

class Telling(Quiet):
    def _step(self, text):
        super()._step(text)
        if self.said[-5:] == ["copying messages", *["row"] * 4]:
            signal.pause()

migrate(sys.argv[1], sys.argv[2], Telling("copying messages", lambda: print("copying messages", flush=True)))
"""


@pytest.mark.parametrize("to", KINDS)
def test_kill_9(to, new_url):
    first, second = new_url("sqlite"), new_url(to)
    with closing(open_store(first)) as store:
        verbs = Verbs(store)
        verbs.create()
        for _ in range(10):
            verbs.send(*(b"%d" % n + b"x" * 200 for n in range(2_500)))
        verbs.ack(*verbs.claim(1_000))
    running = subprocess.Popen([sys.executable, "-c", TELLING, first, second], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        # Until then, those who have the second store open are looked for, and we would be one of them.
        assert running.stdout.readline() == b"copying messages\n"
        wait_until(lambda: copied_so_far(second) or running.poll() is not None, every_s=0.001)
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()
    command = [sys.executable, "-m", "penstock", "migrate-store", first, second]
    assert 0 < copied_so_far(second) < 24_000
    with pytest.raises(MigrationUnfinished):
        open_store(second)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "going on where an earlier run ended" in done.stderr
    assert contents(second) == contents(first)


def copied_so_far(url: str) -> int:
    if url.startswith("sqlite") and not Path(url.removeprefix("sqlite:///")).exists():
        return 0
    with closing(open_sql_store(url)) as store, store.raw(write=False) as raw:
        [(count,)] = raw.rows("SELECT count(*) FROM message")
        return int(count)


@pytest.mark.parametrize("to", KINDS)
def test_a_run_that_was_overtaken_changes_nothing_any_more(to, source, new_url, monkeypatch):
    """One that had lost sight of the source, or the other would have been refused."""
    monkeypatch.setattr(copy._Copy, "_refuse_other_users", lambda _self: None)
    target = new_url(to)
    before = contents(source)
    with pytest.raises(MigrationUnfinished, match="taken over"):
        migrate(source, target, Quiet("copying ledger rows", lambda: migrate(source, target, Quiet(), SMALL)), SMALL)
    assert contents(target) == before
