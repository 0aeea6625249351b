"""Folders, names and moves exactly as the document has them, looked at from outside after each step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.stores.mqcore.cursor import Relisting
from tests.mqcore.disk import HOLD_MS, Desk, open_root, tree


def test_a_root_has_the_four_folders(desk: Desk, root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["delay", "new", "queues", "remove"]


def test_a_queue_is_a_folder(desk: Desk, root: Path) -> None:
    desk.create("queue001")
    assert [path.name for path in (root / "queues").iterdir()] == ["queue001"]
    desk.delete("queue001")
    assert list((root / "queues").iterdir()) == []


def test_the_life_of_a_message(desk: Desk, root: Path, monkeypatch) -> None:
    desk.create()
    seen: list[set[str]] = []
    rename = os.rename

    def watched(*args: object, **folders: object) -> None:
        seen.append(tree(root))
        rename(*args, **folders)

    monkeypatch.setattr(os, "rename", watched)
    [message_id] = desk.send(b"the bytes posted")
    assert seen == [{f"new/q:{message_id}"}]  # whole, and not yet in the queue
    assert tree(root) == {f"queues/q/{message_id}"}
    assert (root / "queues" / "q" / message_id).read_bytes() == b"the bytes posted"
    [message] = desk.claim()
    assert (message.id, message.body) == (message_id, b"the bytes posted")
    assert tree(root) == {f"delay/q:{message_id}"}
    desk.now += HOLD_MS - 1
    assert desk.sweep() == 0
    assert tree(root) == {f"delay/q:{message_id}"}
    desk.now += 1
    assert desk.sweep() == 1
    assert tree(root) == {f"queues/q/{message_id}"}
    desk.claim()
    assert desk.ack(message_id) == [True]
    assert tree(root) == {f"remove/q:{message_id}"}
    assert desk.sweep() == 1
    assert tree(root) == set()


def test_each_message_is_written_once_and_unlinked_once(desk: Desk, root: Path, monkeypatch) -> None:
    calls: list[str] = []
    for name in ("write", "unlink", "rename"):
        real = getattr(os, name)

        def counted(*args: object, _name: str = name, _real=real, **folders: object) -> object:
            result = _real(*args, **folders)
            calls.append(_name)  # those that succeed
            return result

        monkeypatch.setattr(os, name, counted)
    desk.create()
    [message_id] = desk.send(b"x")
    inode = (root / "queues" / "q" / message_id).stat().st_ino
    desk.claim()
    desk.now += HOLD_MS
    desk.claim()
    assert (root / "delay" / f"q:{message_id}").stat().st_ino == inode
    desk.ack(message_id)
    desk.sweep()
    assert calls == ["write", "rename", "rename", "rename", "rename", "rename", "unlink"]


def test_a_message_can_be_removed_from_every_place(desk: Desk, root: Path) -> None:
    desk.create()
    ready, claimed, new = desk.send(b"a", b"b", b"c")
    os.rename(root / "queues/q" / claimed, root / f"delay/q:{claimed}")
    os.rename(root / "queues/q" / new, root / f"new/q:{new}")
    assert desk.ack(ready, claimed, new) == [True, True, True]
    assert desk.ack(ready, claimed, new) == [False, False, False]
    assert tree(root) == {f"remove/q:{message_id}" for message_id in (ready, claimed, new)}


def test_deleting_a_queue_empties_new_queues_and_delay_of_its_messages_alone(desk: Desk, root: Path) -> None:
    for name in ("q", "q2", "2q"):
        desk.create(name)
        _, claimed, new = desk.send(b"a", b"b", b"c", to=name)
        os.rename(root / "queues" / name / claimed, root / f"delay/{name}:{claimed}")
        os.rename(root / "queues" / name / new, root / f"new/{name}:{new}")
    desk.delete("q")
    left = {path for path in tree(root) if not path.startswith("remove/")}
    assert len(left) == 6
    assert not any(path.startswith(("new/q:", "queues/q/", "delay/q:")) for path in left)
    desk.create("q")
    assert desk.bodies() == []
    while desk.sweep():
        pass
    assert list((root / "remove").iterdir()) == []


def test_the_time_of_redelivery_is_the_mtime_and_survives_a_restart(desk: Desk, root: Path) -> None:
    desk.create()
    [message_id] = desk.send(b"x")
    desk.claim()
    assert (root / f"delay/q:{message_id}").stat().st_mtime_ns == (desk.now + HOLD_MS) * 1_000_000
    again = Desk(open_root(root))
    again.now = desk.now + HOLD_MS - 1
    assert again.bodies() == []
    again.now += 1
    assert again.bodies() == [b"x"]
    again.store.close()


def test_any_uuid_is_a_message_and_order_is_by_name(desk: Desk, root: Path) -> None:
    desk.create()
    names = [
        "4ad814ab-213e-11e3-a9a3-0025904f6e08",
        "00000000-0000-4000-8000-000000000000",
        "FFFFFFFF-213E-11E3-A9A3-0025904F6E08",
    ]
    for name in names:
        (root / "queues/q" / name).write_bytes(name.encode())
    assert [message.id for message in desk.claim(3)] == [names[1], names[0], names[2]]
    assert desk.ack(*names) == [True, True, True]


NAMES = ["README", "1", "order.json", "a:b", "a b", "50%", ".hidden", "ä\n", "x" * 253, "caf\udce9", ".nf"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_any_name_is_a_message(desk: Desk, root: Path, name: str) -> None:
    """It goes the way of every message: fetched, redelivered, fetched again, deleted, destroyed."""
    desk.create()
    path = root / "queues/q" / name
    path.write_bytes(b"from elsewhere")
    assert desk.count().total == 1
    [message] = desk.claim()
    assert message.body == b"from elsewhere"
    assert message.id.encode().isascii() or message.id == name
    assert not path.exists()
    desk.now += HOLD_MS
    assert [again.id for again in desk.claim()] == [message.id]
    assert desk.ack(message.id) == [True]
    assert desk.ack(message.id) == [False]
    while desk.sweep():
        pass
    assert tree(root) == set()


def test_an_id_that_looks_percent_encoded_is_first_of_all_a_name(desk: Desk, root: Path) -> None:
    desk.create()
    for name in ("%FF", "\udcff"):
        (root / "queues/q" / name).write_bytes(os.fsencode(name))
    assert desk.ack("%FF") == [True]
    assert desk.bodies() == [b"\xff"]
    assert desk.ack("%FF") == [True]


def test_content_type_beside_the_bytes(desk: Desk, root: Path) -> None:
    desk.create()
    [message_id] = desk.send(b"x", content_type="text/plain; charset=utf-8")
    path = root / "queues/q" / message_id
    assert path.read_bytes() == b"x"
    assert os.getxattr(path, "user.penstock.content_type") == b"text/plain; charset=utf-8"
    assert desk.claim()[0].content_type == "text/plain; charset=utf-8"


def test_a_file_system_without_attributes_drops_the_content_type(desk: Desk, monkeypatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    monkeypatch.setattr(os, "getxattr", refuse)
    desk.create()
    desk.send(b"x", content_type="text/plain")
    assert [(message.body, message.content_type) for message in desk.claim()] == [(b"x", None)]


def test_ids_rise_though_the_clock_is_set_back(desk: Desk) -> None:
    desk.create()
    first = desk.send(b"1")
    desk.now -= 3_600_000
    second = desk.send(b"2")
    assert first < second
    assert desk.bodies() == [b"1", b"2"]


def test_redelivered_messages_take_their_old_place(desk: Desk) -> None:
    desk.create()
    desk.send(*(b"%d" % number for number in range(6)))
    assert desk.bodies(2) == [b"0", b"1"]
    desk.now += HOLD_MS
    assert desk.bodies(4) == [b"0", b"1", b"2", b"3"]


def test_what_another_process_redelivers_is_found_among_the_older(root: Path) -> None:
    store = open_root(root, relisting=Relisting(0, 0))
    desk = Desk(store)
    desk.create()
    desk.send(*(b"%d" % number for number in range(4)))
    [message] = desk.claim()
    os.rename(root / f"delay/q:{message.id}", root / "queues/q" / message.id)
    assert desk.bodies() == [b"0", b"1", b"2", b"3"]
    store.close()


def test_what_is_only_looked_at_is_seen_once_and_stays(desk: Desk, root: Path) -> None:
    desk.create()
    sent = desk.send(b"1", b"2")
    for _ in range(3):
        assert [message.id for message in desk.claim(5, hold_ms=0)] == sent
    assert tree(root) == {f"queues/q/{message_id}" for message_id in sent}
