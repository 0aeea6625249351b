"""`python -m devtools.audit`: whether what we pin is what we mean, and nothing of it is known to be vulnerable.

Without a network: what is known stands in `requirements/advisories.json`, which people keep. A list that is kept knows
less than an advisory service: `make audit` asks one where it can be reached. Looked at are that

- every pin has hashes, and every file of wishes (`*.in`) has its pins, in the versions that it asks for;
- what is installed together is pinned alike;
- no pin, and no vendored script, falls in the range of an advisory, unless that was accepted with a reason;
- the vendored scripts are those that were vendored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from devtools.pins import ROOT, Pin, included, read_pins, read_vendored, read_wanted

# These are installed into one environment, or build what is. The others have environments of their own.
_TOGETHER: Final = ("server.txt", "spark.txt", "dev.txt", "build.txt")
_OR: Final = "||"


def findings(root: Path = ROOT) -> list[str]:
    folder = root / "requirements"
    pinned = {file.name: read_pins(file) for file in sorted(folder.glob("*.txt"))}
    known = json.loads((folder / "advisories.json").read_text())
    return [
        *_without_hashes(pinned),
        *_not_as_wished(folder, pinned),
        *_pinned_differently(pinned),
        *_vulnerable(root, pinned, known),
        *_changed_scripts(root),
    ]


def _without_hashes(pinned: dict[str, list[Pin]]) -> Iterator[str]:
    for file, pins in pinned.items():
        if not pins:
            yield f"{file}: pins nothing"
        for pin in pins:
            if not pin.hashes:
                yield f"{file}: {pin.name} {pin.version} has no hash"


def _not_as_wished(folder: Path, pinned: dict[str, list[Pin]]) -> Iterator[str]:
    for file in sorted(folder.glob("*.in")):
        pins = pinned.get(file.with_suffix(".txt").name)
        if pins is None:
            yield f"{file.name}: there is no {file.with_suffix('.txt').name}"
            continue
        for name, versions in [wish for one in (file, *included(file)) for wish in read_wanted(one)]:
            found = [pin for pin in pins if pin.name == name]
            if not found:
                yield f"{file.name}: {name} is not pinned"
            for pin in found:
                if Version(pin.version) not in SpecifierSet(versions):
                    yield f"{file.name}: {name}{versions} is wanted, and {pin.version} is pinned"
    for name in pinned:
        if not (folder / name).with_suffix(".in").exists():
            yield f"{name}: there is no file of wishes for it"


def _pinned_differently(pinned: dict[str, list[Pin]]) -> Iterator[str]:
    versions: dict[str, dict[str, list[str]]] = {}
    for file in _TOGETHER:
        for pin in pinned.get(file, []):
            # One file may have several, for different machines.
            versions.setdefault(pin.name, {}).setdefault(file, []).append(pin.version)
    for name, by_file in sorted(versions.items()):
        if len({tuple(sorted(found)) for found in by_file.values()}) > 1:
            told = ", ".join(f"{' and '.join(found)} in {file}" for file, found in by_file.items())
            yield f"{name} is pinned differently: {told}"


def _vulnerable(root: Path, pinned: dict[str, list[Pin]], known: dict[str, Any]) -> Iterator[str]:
    accepted = {(one["id"], one["file"]) for one in known["accepted"]}
    used: set[tuple[str, str]] = set()
    for advisory in known["advisories"]:
        if advisory["ecosystem"] == "npm":
            places = [("vendored.json", one.name, one.version) for one in read_vendored(root)]
        else:
            places = [(file, pin.name, pin.version) for file, pins in pinned.items() for pin in pins]
        for file, name, version in places:
            if name == advisory["package"] and is_affected(version, advisory["affected"]):
                if (advisory["id"], file) in accepted:
                    used.add((advisory["id"], file))
                else:
                    yield f"{file}: {name} {version} is affected by {advisory['id']}: {advisory['what']}"
    for number, file in sorted(accepted - used):
        yield f"advisories.json: {number} is accepted for {file}, which it does not concern"


def _changed_scripts(root: Path) -> Iterator[str]:
    known: set[Path] = set()
    for library in read_vendored(root):
        for path, digest in library.files.items():
            known.add(root / path)
            if not (root / path).exists():
                yield f"{path} of {library.name} is missing"
            elif hashlib.sha256((root / path).read_bytes()).hexdigest() != digest:
                yield f"{path} is not the {library.name} {library.version} that was vendored"
    for folder in {path.parent for path in known}:
        for path in sorted(folder.iterdir()):
            if path not in known and path.suffix != ".LICENSE":
                yield f"{path.relative_to(root)} is in no list of what is vendored"


def is_affected(version: str, ranges: str) -> bool:
    """Whether a version is in one of several ranges, such as `<1.26.17 || >=2.0.0,<2.0.6`."""
    return any(
        SpecifierSet(one.strip(), prereleases=True).contains(Version(version), prereleases=True)
        for one in ranges.split(_OR)
    )


if __name__ == "__main__":
    found = findings()
    for finding in found:
        sys.stderr.write(f"{finding}\n")
    known = json.loads((ROOT / "requirements" / "advisories.json").read_text())
    count, accepted = len(known["advisories"]), len(known["accepted"])
    sys.stdout.write(f"audit: {len(found)} findings, {count} advisories of {known['read_on']}, {accepted} accepted\n")
    sys.exit(bool(found))
