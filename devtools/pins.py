"""What the project pins: the packages in `requirements/*.txt`, and the scripts that are vendored into the console."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = ROOT / "requirements"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A package at one version, and the hashes of the files that may be installed for it. `line` is its first line."""

    name: str
    version: str
    hashes: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class Vendored:
    """A library of another project that is in our tree: its files by their paths, with their hashes."""

    name: str
    version: str
    licence: str
    files: dict[str, str]


def normal(name: str) -> str:
    """As PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(file: Path) -> list[Pin]:
    """Raises ValueError for a line that is neither a pin, nor a hash, nor a comment."""
    pins: list[Pin] = []
    # A line goes on behind a backslash.
    for line in file.read_text().replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _PIN.match(line)
        if found is None:
            raise ValueError(f"{file.name}: {line[:80]!r} pins nothing")
        first = line.partition("--hash")[0].strip()
        pins.append(Pin(normal(found[1]), found[2], tuple(_HASH.findall(line)), first))
    return pins


def read_wanted(file: Path) -> list[tuple[str, str]]:
    """What a file of wishes (`requirements/*.in`) asks for itself: names and version specifiers."""
    wanted = []
    for line in file.read_text().splitlines():
        found = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*([^#;]*)", line)
        if found and not line.startswith("#"):
            wanted.append((normal(found[1]), found[2].strip()))
    return wanted


def included(file: Path) -> list[Path]:
    """The other files of wishes that it includes."""
    return [file.parent / line.split()[1] for line in file.read_text().splitlines() if line.startswith("-r ")]


def read_vendored(root: Path = ROOT) -> list[Vendored]:
    told = json.loads((root / "requirements" / "vendored.json").read_text())
    return [Vendored(one["name"], one["version"], one["licence"], one["files"]) for one in told]
