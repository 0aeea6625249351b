"""When, where and of what a run was made: figures mean little without."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Occasion:
    date: str
    commit: str
    machine: str

    @classmethod
    def now(cls) -> Self:
        return cls(f"{datetime.now(UTC):%Y-%m-%d}", _commit(), _machine())

    def __str__(self) -> str:
        return f"Measured on {self.date} at commit `{self.commit}`: {self.machine}."


def _commit() -> str:
    """With a plus where the files differ from it."""
    try:
        told = _git("rev-parse", "--short=7", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told[0] + ("+" if told[1] else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {system}, Python {platform.python_version()}"
