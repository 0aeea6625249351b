"""A lake on a disk: a process dies at any call that changes it. What a reader can see is whole, and no manifest comes
before its file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.storage import Storage
from tests.lacking import lacking, not_installed
from tests.spark.faults.work import PATH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_FILE, _MANIFEST = "messages/queue=q/consumer=drain/shipment=1/7.parquet", "_manifests/messages/queue=q/1-7.json"
_DATA = b"rows" * 1000
_PROGRAM = f"""
import sys
from penstock.spark.storage import Storage

storage = Storage.at(sys.argv[1])
storage.put({_FILE!r}, b"rows" * 1000)
storage.put({_MANIFEST!r}, b"manifest")
"""
_CALLS = ("mkdir", "write", "fsync", "rename")


def traced(lake: Path, log: Path, *options: str) -> int:
    strace = shutil.which("strace") or not_installed("strace")
    command = [strace, "-f", "-qq", "-y", "-o", str(log), *options]
    ended = subprocess.run(
        [*command, sys.executable, "-B", "-c", _PROGRAM, str(lake)],
        env={"PYTHONPATH": PATH},
        capture_output=True,
        text=True,
    )
    if "ptrace" in ended.stderr:
        lacking("no process can be traced", ended.stderr.strip())
    return ended.returncode


def calls(log: Path, lake: Path) -> list[str]:
    """Those that concern the lake."""
    return [line.split(maxsplit=1)[1] for line in log.read_text().splitlines() if str(lake) in line]


def seen(lake: Path) -> dict[str, bytes]:
    """By a reader, who does not look into staging."""
    files = {str(it.relative_to(lake)): it.read_bytes() for it in lake.rglob("*") if it.is_file()}
    return {name: data for name, data in files.items() if not name.startswith("_staging/")}


def test_a_file_has_its_name_when_it_is_on_stable_media_and_before_its_manifest(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert traced(lake, tmp_path / "log", "-e", f"trace={','.join(_CALLS)}") == 0
    made = calls(tmp_path / "log", lake)
    renames = [at for at, call in enumerate(made) if call.startswith("rename")]
    assert len(renames) == 2
    for name, at, end in ((_FILE, renames[0], renames[1]), (_MANIFEST, renames[1], len(made))):
        assert made[at].rstrip().endswith(f'"{lake}/{name}") = 0')
        staged = str(re.findall(r'"(.*?)"', made[at])[0])
        of_file = [call for call in made[:at] if staged in call]
        assert of_file[-1].startswith("fsync"), "its bytes are not on stable media"
        synced = {found[1] for call in made[at:end] if (found := re.match(r"fsync\(\d+<(.*)>\)", call))}
        above = {str(parent) for parent in (lake / name).parents if parent == lake or lake in parent.parents}
        assert synced >= above, "its name is not on stable media"


@pytest.mark.parametrize("call", _CALLS)
def test_killed_at_any_call(call: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    traced(tmp_path / "whole", log, "-e", f"trace={call}")
    lines = log.read_text().splitlines()
    points = [number for number, line in enumerate(lines, 1) if str(tmp_path / "whole") in line]
    assert len(points) >= 2
    for point in points:
        lake = tmp_path / f"{point}"
        code = traced(lake, log, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={point}")
        assert code in (-9, 137)
        found = seen(lake)
        assert found in ({}, {_FILE: _DATA}, {_FILE: _DATA, _MANIFEST: b"manifest"})
        storage = Storage.at(str(lake))
        storage.put(_FILE, _DATA)
        storage.put(_MANIFEST, b"manifest")
        assert seen(lake) == {_FILE: _DATA, _MANIFEST: b"manifest"}
