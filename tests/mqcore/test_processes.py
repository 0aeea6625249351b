"""Real processes that race for one folder: the first to rename has the message."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.clock import system_clock
from penstock.errors import QueueExists
from penstock.model import Draft, Receipt, Settings
from penstock.stores.mqcore import MqCoreStore
from tests.mqcore.disk import open_root, tree
from tests.waiting import wait_until

SENDERS, CLAIMERS = 2, 3
EACH = 400
# Longer than any run: whatever comes twice was handed out twice.
HOLD_MS = 3_600_000
processes = multiprocessing.get_context("spawn")


def opened(root: Path, peers: int) -> MqCoreStore:
    """All open a root that none of them has made yet, and all try to create the queue."""
    store = open_root(root, peers=peers, sync_threads=1)
    with suppress(QueueExists), store.unit() as unit:
        unit.create_queue("q", Settings(), system_clock())
    return store


def run_sender(root: Path, sender: int) -> None:
    store = opened(root, 0)
    # Else one claimer could be done with everything before the others have started.
    wait_until(lambda: len(list(root.parent.glob("ready-*"))) == CLAIMERS)
    numbers = list(range(EACH))
    size = 1
    while numbers:
        batch, numbers = numbers[:size], numbers[size:]
        size = size % 17 + 5
        with store.unit() as unit:
            unit.send("q", [Draft(b"%d %d" % (sender, number)) for number in batch], system_clock())
    store.close()


def run_claimer(root: Path, peers: int, done: int) -> tuple[list[tuple[int, int]], int]:
    """What was handed out here, in the order it came, and how many races were lost."""
    store = opened(root, peers)
    (root.parent / f"ready-{os.getpid()}").touch()
    seen = []
    # A process that fails must not keep the others waiting for its messages forever.
    until = time.monotonic() + 100
    while len(list((root / "ended").iterdir())) < done and time.monotonic() < until:
        with store.unit() as unit:
            messages = unit.claim("q", 7, system_clock(), HOLD_MS).messages
            acked = unit.ack([Receipt(message.id, queue="q") for message in messages], system_clock())
        assert all(acked)
        for message in messages:
            sender, number = map(int, message.body.split())
            seen.append((sender, number))
            (root / "ended" / f"{sender}-{number}").touch()
    lost = store.state.lost
    store.close()
    return seen, lost


@pytest.mark.parametrize("peers", [0, CLAIMERS - 1])
def test_every_message_is_handed_out_exactly_once(tmp_path: Path, peers: int) -> None:
    root = tmp_path / "root"
    (root / "ended").mkdir(parents=True)
    with ProcessPoolExecutor(SENDERS + CLAIMERS, mp_context=processes) as pool:
        claimers = [pool.submit(run_claimer, root, peers, SENDERS * EACH) for _ in range(CLAIMERS)]
        senders = [pool.submit(run_sender, root, sender) for sender in range(SENDERS)]
        for sender in senders:
            sender.result()
        seen = [claimer.result()[0] for claimer in claimers]
    assert Counter(one for claimer in seen for one in claimer) == Counter(
        (sender, number) for sender in range(SENDERS) for number in range(EACH)
    )
    assert sum(len(claimer) > 0 for claimer in seen) > 1
    assert {path.split("/")[0] for path in tree(root)} <= {"ended", "remove"}
