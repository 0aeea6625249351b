"""The audit of what is pinned, without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from devtools.audit import findings, is_affected
from devtools.pins import ROOT, read_vendored


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what is looked at."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for library in read_vendored():
        for path in library.files:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def advisories(file: Path, work: Callable[[dict], object]) -> None:
    known = json.loads(file.read_text())
    work(known)
    file.write_text(json.dumps(known))


def test_nothing_is_found() -> None:
    assert findings() == []


def test_a_pin_in_the_range_of_an_advisory(tree: Path) -> None:
    advisory = {"id": "CVE-1", "ecosystem": "PyPI", "package": "msgspec", "affected": ">=0", "what": "x", "source": ""}
    advisories(tree / "requirements" / "advisories.json", lambda known: known["advisories"].append(advisory))
    found = findings(tree)
    assert {one.partition(":")[0] for one in found} == {"server.txt", "spark.txt", "dev.txt", "fuzz.txt"}
    assert all("is affected by CVE-1: x" in one for one in found)


def test_a_vendored_script_in_the_range_of_one(tree: Path) -> None:
    advisory = {"id": "CVE-2", "ecosystem": "npm", "package": "htmx.org", "affected": "<3", "what": "x", "source": ""}
    advisories(tree / "requirements" / "advisories.json", lambda known: known["advisories"].append(advisory))
    assert findings(tree) == ["vendored.json: htmx.org 2.0.11 is affected by CVE-2: x"]


def test_what_was_accepted_must_be_needed_and_have_a_reason(tree: Path) -> None:
    file = tree / "requirements" / "advisories.json"
    known = json.loads(file.read_text())
    assert all(len(one["why"]) > 40 for one in known["accepted"])
    advisories(file, lambda known: known["accepted"].append({"id": "CVE-3", "file": "server.txt", "why": "none"}))
    assert findings(tree) == ["advisories.json: CVE-3 is accepted for server.txt, which it does not concern"]
    advisories(file, lambda known: known["accepted"].clear())
    assert {one.partition(" is affected")[0] for one in findings(tree)} == {"clients-query.txt: urllib3 1.26.20"}


def test_a_pin_without_a_hash_and_one_that_differs(tree: Path) -> None:
    append(tree / "requirements" / "build.txt", "jinja2==3.1.7\n")
    found = findings(tree)
    assert "build.txt: jinja2 3.1.7 has no hash" in found
    assert any(one.startswith("jinja2 is pinned differently: ") for one in found)


def test_a_wish_that_is_not_kept(tree: Path) -> None:
    append(tree / "requirements" / "server.in", "nowhere\nmsgspec>=99\n")
    found = findings(tree)
    assert "server.in: nowhere is not pinned" in found
    assert any("server.in: msgspec>=99 is wanted" in one for one in found)


def test_a_script_that_was_changed_and_one_that_no_one_knows(tree: Path) -> None:
    path = next(path for library in read_vendored() for path in library.files)
    append(tree / path, "evil()")
    (tree / path).with_name("other.js").write_text("")
    assert [one.partition(" is ")[2][:10] for one in findings(tree)] == ["not the ht", "in no list"]


@pytest.mark.parametrize(
    ("version", "affected"), [("1.26.16", True), ("1.26.17", False), ("2.0.0a1", False), ("2.0.5", True)]
)
def test_ranges(version: str, affected: bool) -> None:
    assert is_affected(version, "<1.26.17 || >=2.0.0,<2.0.6") is affected
