"""Nothing that is planted in the folders, and no name that is asked for, leads out of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import FeatureMissing, InvalidRequest, QueueNotFound, StoreForeign
from penstock.model import Draft, Receipt, Settings
from penstock.stores.protocol import NOUNS, Noun, missing_nouns, needed
from tests.mqcore.disk import Desk, open_root, tree

ID = "00000000-0000-7000-8000-000000000001"
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "/etc",
    "a/b",
    "a\0b",
    "a\nb",
    "a:b",
    "ä",
    "a b",
    "*",
    "x" * 219,
    "q/../../x",
    "-\udcff",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_and_make_no_queue(desk: Desk, root: Path, name: str) -> None:
    with pytest.raises(InvalidRequest):
        desk.create(name)
    with pytest.raises(QueueNotFound):
        desk.send(b"x", to=name)
    with pytest.raises(QueueNotFound):
        desk.claim(queue=name)
    with pytest.raises(QueueNotFound):
        desk.delete(name)
    assert desk.ack(ID, queue=name) == [False]
    assert sorted(os.listdir(root.parent)) == ["root"]
    assert tree(root) == set()


@pytest.mark.parametrize(
    "message_id",
    ["", ".", "..", "../../x", "x", ID + "/..", ID[:-1], ID + "\0", "*", "%2e%2e", "..%2f..%2fx", "\ud800", "é" * 200],
)
def test_hostile_ids_are_unknown(desk: Desk, root: Path, message_id: str) -> None:
    desk.create()
    desk.send(b"x")
    before = tree(root)
    assert desk.ack(message_id) == [False]
    assert tree(root) == before


def test_the_longest_name_works(desk: Desk) -> None:
    name = "x" * 218
    desk.create(name)
    desk.send(b"body", to=name)
    [message] = desk.claim(queue=name)
    assert desk.ack(message.id, queue=name) == [True]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Something outside the root that must not be read, changed or destroyed through it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / ID).write_bytes(b"secret")
    return folder / ID


def test_a_link_in_the_place_of_a_message_is_never_followed(desk: Desk, root: Path, secret: Path) -> None:
    desk.create()
    (root / "queues/q" / ID).symlink_to(secret)
    desk.send(b"real")
    assert desk.bodies() == [b"real"]
    desk.sweep()
    assert secret.read_bytes() == b"secret"
    assert not (root / "queues/q" / ID).is_symlink()


@pytest.mark.parametrize("folder", ["new", "delay", "remove"])
def test_links_in_the_other_folders(desk: Desk, root: Path, secret: Path, folder: str) -> None:
    desk.create()
    before = secret.stat()
    (root / folder / f"q:{ID}").symlink_to(secret)
    desk.now = 2**41
    desk.sweep()
    assert desk.bodies() == []
    while desk.sweep():
        pass
    assert tree(root) == set()
    assert (secret.read_bytes(), secret.stat().st_mtime_ns) == (b"secret", before.st_mtime_ns)


def test_a_linked_folder_is_not_a_queue(desk: Desk, root: Path, secret: Path) -> None:
    (root / "queues/q").symlink_to(secret.parent)
    with pytest.raises(QueueNotFound):
        desk.claim()
    with pytest.raises(QueueNotFound):
        desk.send(b"x")
    with pytest.raises(StoreForeign):
        desk.create()
    assert desk.ack(ID) == [False]
    with desk.store.unit(write=False) as unit:
        assert unit.list_queues(0, 10).total == 0
    assert os.listdir(secret.parent) == [ID]


def test_a_queue_swapped_for_a_link_while_it_is_open(desk: Desk, root: Path, secret: Path) -> None:
    desk.create()
    desk.send(b"x")
    os.rename(root / "queues/q", root / "aside")
    (root / "queues/q").symlink_to(secret.parent)
    with pytest.raises(QueueNotFound):
        desk.claim()
    assert os.listdir(secret.parent) == [ID]


@pytest.mark.parametrize("name", ["new", "queues", "delay", "remove"])
def test_a_root_whose_folder_is_a_link_is_refused(root: Path, secret: Path, name: str) -> None:
    root.mkdir()
    (root / name).symlink_to(secret.parent)
    with pytest.raises(StoreForeign, match="not a folder"):
        open_root(root)


def test_pipes_and_folders_in_the_place_of_messages_hold_nothing_up(desk: Desk, root: Path) -> None:
    desk.create()
    os.mkfifo(root / "queues/q" / ID)
    (root / "queues/q" / ID.replace("1", "2")).mkdir()
    desk.send(b"real")
    assert desk.bodies() == [b"real"]
    while desk.sweep():
        pass


def test_what_only_looks_like_a_message_by_its_place_is_left_alone(desk: Desk, root: Path, secret: Path) -> None:
    desk.create()
    queue = root / "queues/q"
    (queue / "folder").mkdir()
    (queue / "folder/inside").write_bytes(b"somebody's")
    (queue / "link").symlink_to(secret)
    os.mkfifo(queue / "pipe")
    (queue / ".nfs0000000000000001").write_bytes(b"what NFS keeps of a deleted file")
    too_long = queue / ("x" * 254)  # it would not fit into the folder of delayed messages
    too_long.write_bytes(b"x")
    before = set(os.listdir(queue))
    desk.send(b"real")
    assert desk.count().total == 1
    assert desk.bodies() == [b"real"]
    while desk.sweep():
        pass
    assert set(os.listdir(queue)) == before
    assert (queue / "folder/inside").exists()
    assert desk.ack("folder", "link", "pipe") == [False] * 3
    assert set(os.listdir(queue)) == before


def test_a_hard_link_to_something_else_is_only_ever_unlinked(desk: Desk, root: Path, secret: Path) -> None:
    desk.create()
    os.link(secret, root / "remove" / f"q:{ID}")
    desk.sweep()
    assert secret.read_bytes() == b"secret"


LACKING = {
    "update": lambda unit: unit.update_queue("q", Settings(delay_ms=1), 0),
    "settings": lambda unit: unit.create_queue("other", Settings(delay_ms=1), 0),
    "attributes": lambda unit: unit.send("q", [Draft(b"x", attributes={"a": "b"})], 0),
    "delay": lambda unit: unit.send("q", [Draft(b"x", delay_ms=1)], 0),
    "ack": lambda unit: unit.ack([Receipt(ID)], 0),
}


@pytest.mark.parametrize("verb", LACKING)
def test_what_the_document_does_not_define_is_missing_and_says_so(desk: Desk, verb: str) -> None:
    desk.create()
    with pytest.raises(FeatureMissing, match="does not keep"), desk.store.unit() as unit:
        LACKING[verb](unit)


@pytest.mark.parametrize("noun", NOUNS)
def test_nouns_of_which_the_document_knows_nothing_are_missing(desk: Desk, noun: Noun) -> None:
    with desk.store.unit(write=False) as unit:
        assert missing_nouns(unit) == list(NOUNS)
        with pytest.raises(FeatureMissing, match="does not keep"):
            needed(getattr(unit, noun), noun)
