"""A device that fills up while a store is copied to it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from penstock.model import Draft, Settings
from penstock.stores import open_store


def test_a_full_disk_stops_a_migration_until_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{small_disk}/new.db"
    with closing(open_store(source)) as store, store.unit() as unit:
        unit.create_queue("q", Settings(), 1)
        unit.send("q", [Draft(b"x" * 1_000)] * 8_000, 1)
    command = [sys.executable, "-m", "penstock", "migrate-store", source, target]
    stopped = subprocess.run(command, capture_output=True, text=True)
    assert stopped.returncode == 4
    assert stopped.stderr.endswith("penstock: the device of the store is full; try again in 10 s\n")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "going on where an earlier run ended" in done.stderr
    with closing(open_store(target)) as store, store.unit(write=False) as unit:
        assert unit.count("q", 1, 10_000).total == 8_000
