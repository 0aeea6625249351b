"""A run that leaves tests out says so at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.lacking import lacking, not_installed, summary


def reason_of(call, monkeypatch) -> str:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        call()
    return str(skipped.value)


def test_what_is_missing_is_counted(monkeypatch):
    reasons = [reason_of(lambda: not_installed("strace"), monkeypatch)] * 3
    reasons += [reason_of(lambda: lacking("no file system can be mounted", "only root may"), monkeypatch)]
    reasons += ["no inotify here"]
    assert summary(reasons) == [
        "3 tests skipped because strace is not installed",
        "1 test skipped because no file system can be mounted",
    ]


def test_in_ci_it_is_a_failure(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must have it: strace is not installed"):
        not_installed("strace")


def test_the_summary_of_a_run_says_it(tmp_path: Path):
    test = tmp_path / "test_one.py"
    test.write_text("from tests.lacking import not_installed\n\ndef test_one():\n    not_installed('a-program')\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", test],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
    )
    assert "1 test skipped because a-program is not installed" in run.stdout, run.stdout + run.stderr


def test_without_root_what_is_missing_is_named(tmp_path: Path):
    """`id` says who runs it; there is no program of Debian's on this path."""
    for name, text in {"id": "echo 1000", "ls": "exit 2"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    run = subprocess.run(
        ["/bin/sh", ROOT / "tests/prepare.sh"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == 0
    assert "not installed, and without root they stay so: strace curl openssl" in run.stderr
    assert "apt-get install strace curl openssl" in run.stderr


def test_every_test_that_is_left_out_is_counted():
    """Except where a store does not keep what a test needs, on any machine."""
    skip = "pytest" + ".skip("
    skipping = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if skip in path.read_text()}
    assert skipping == {"tests/lacking.py", "tests/stores/conftest.py"}
