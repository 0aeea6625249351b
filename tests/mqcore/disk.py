"""What is on the disk, the verbs without their ceremony, and the checker of a store that has been through something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from penstock.model import Count, Draft, Message, Receipt, Settings
from penstock.stores.mqcore import MqCoreOptions, MqCoreStore
from penstock.stores.mqcore.folders import Folders
from penstock.stores.mqcore.mover import Mover

HOLD_MS = 10_000


def open_root(root: Path, **options: object) -> MqCoreStore:
    return MqCoreStore(f"mqcore:///{root}", root, MqCoreOptions(**{"grace_s": 0, **options}), Random())


def tree(root: Path) -> set[str]:
    """All files, and folders that are empty, by their path below the root."""
    paths = [path for path in root.rglob("*") if not path.is_dir() or path.is_symlink()]
    return {str(path.relative_to(root)) for path in paths}


class Desk:
    """Each verb in a unit of its own, on the queue "q"."""

    def __init__(self, store: MqCoreStore) -> None:
        self.store = store
        self.now = 1_700_000_000_000

    def create(self, name: str = "q") -> None:
        with self.store.unit() as unit:
            unit.create_queue(name, Settings(), self.now)

    def delete(self, name: str = "q") -> None:
        with self.store.unit() as unit:
            unit.delete_queue(name, self.now)

    def send(self, *bodies: bytes, to: str = "q", content_type: str | None = None) -> list[str]:
        with self.store.unit() as unit:
            return [sent.id for sent in unit.send(to, [Draft(body, content_type) for body in bodies], self.now)]

    def claim(self, limit: int = 1, hold_ms: int = HOLD_MS, queue: str = "q") -> list[Message]:
        with self.store.unit() as unit:
            return unit.claim(queue, limit, self.now, hold_ms).messages

    def bodies(self, limit: int = 100, queue: str = "q") -> list[bytes]:
        return [message.body for message in self.claim(limit, queue=queue)]

    def ack(self, *ids: str, queue: str = "q") -> list[bool]:
        with self.store.unit() as unit:
            return unit.ack([Receipt(message_id, queue=queue) for message_id in ids], self.now)

    def sweep(self) -> int:
        with self.store.unit() as unit:
            return unit.sweep(self.now, 1_000, 0)

    def count(self, queue: str = "q") -> Count:
        with self.store.unit(write=False) as unit:
            return unit.count(queue, self.now, 1_000)


def places(root: Path) -> Counter[str]:
    """How often each id is somewhere a client could still get it from."""
    found = [path.name for path in (root / "queues").glob("*/*")]
    for folder in ("new", "delay"):
        found += [path.name.partition(":")[2] for path in (root / folder).iterdir()]
    return Counter(found)


def remove_abandoned(root: Path) -> None:
    """A message that was never written to its end is waited for in real life; here its writer is known to be dead."""
    folders = Folders(root, 0, Random(1))
    Mover(grace_s=0, abandoned_s=0).recover(folders)
    folders.close()


def check(root: Path, sent: dict[str, bytes], acked: set[str], perhaps_acked: set[str], queue: str = "q") -> None:
    """Nothing acknowledged is lost, nothing deleted comes back, nothing is in two places, leftovers go away.

    `sent` and `acked` were answered; what is in `perhaps_acked` was asked for and never answered.
    """
    where = places(root)
    assert all(times == 1 for times in where.values()), where
    assert sent.keys() - acked - perhaps_acked <= where.keys()
    assert not acked & where.keys()
    remove_abandoned(root)
    store = open_root(root)
    desk = Desk(store)
    desk.now = 2**41  # all that is in `delay` is due
    desk.sweep()
    if (root / "queues" / queue).exists():
        messages = desk.claim(100_000, queue=queue)
        assert len({message.id for message in messages}) == len(messages)
        left = {message.id: message.body for message in messages}
        assert sent.keys() - acked - perhaps_acked <= left.keys()
        for message_id in left.keys() & sent.keys():
            assert left[message_id] == sent[message_id]
        assert not acked & left.keys()
        assert all(desk.ack(*left, queue=queue))
    while desk.sweep():
        pass
    store.close()
    assert tree(root) == set()
