"""`python -m devtools.sbom FOLDER`: a bill of materials of what is in a folder of wheels, beside them.

CycloneDX 1.5, as JSON: the package, what a server pins (`requirements/server.txt`) with the hashes of every file that
may be installed for it, and the scripts that are vendored into the console. Licences, and what needs what, are as the
installed packages say; so it is run by the environment that the server has. The same tree makes the same text, if
SOURCE_DATE_EPOCH says when.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from devtools.pins import REQUIREMENTS, Pin, Vendored, normal, read_pins, read_vendored

PACKAGE: Final = "penstock-mq"
_SPDX = re.compile(r"[A-Za-z0-9.+() -]+")
# What packages say that do not say it in the terms of SPDX.
_NAMED: Final = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "zlib/libpng License": "Zlib",
}


def bill(wheels: Iterable[Path], version: str, now: int) -> dict[str, Any]:
    """`now` is in seconds."""
    pins, vendored = read_pins(REQUIREMENTS / "server.txt"), read_vendored()
    own = _purl(PACKAGE, version)
    components = [*(_package(pin) for pin in pins), *(_library(one) for one in vendored)]
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": PACKAGE,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [
                    {"name": f"penstock:sha256:{wheel.name}", "value": hashlib.sha256(wheel.read_bytes()).hexdigest()}
                    for wheel in sorted(wheels)
                ],
            },
        },
        "components": components,
        "dependencies": _dependencies(own, pins, vendored),
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", **body, "serialNumber": f"urn:uuid:{number}"}


def _package(pin: Pin) -> dict[str, Any]:
    told = {
        "type": "library",
        "bom-ref": _purl(pin.name, pin.version),
        "name": pin.name,
        "version": pin.version,
        "purl": _purl(pin.name, pin.version),
        # Of every file that may be installed for it: for each kind of machine there is another.
        "hashes": [{"alg": "SHA-256", "content": one} for one in pin.hashes],
    }
    licence = _licence(pin.name)
    return {**told, "licenses": [licence]} if licence else told


def _library(library: Vendored) -> dict[str, Any]:
    purl = f"pkg:npm/{library.name}@{library.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": library.name,
        "version": library.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": one} for one in library.files.values()],
        "licenses": [{"license": {"id": library.licence}}],
        "properties": [{"name": "penstock:vendored", "value": path} for path in library.files],
    }


def _dependencies(own: str, pins: list[Pin], vendored: list[Vendored]) -> list[dict[str, Any]]:
    refs = {pin.name: _purl(pin.name, pin.version) for pin in pins}
    scripts = [f"pkg:npm/{one.name}@{one.version}" for one in vendored]
    needed = {pin.name: _needed_by(pin.name) & refs.keys() for pin in pins}
    indirect = {name for names in needed.values() for name in names}
    direct = sorted(ref for name, ref in refs.items() if name not in indirect)
    return [
        {"ref": own, "dependsOn": [*direct, *scripts]},
        *({"ref": ref, "dependsOn": sorted(refs[name] for name in needed[of])} for of, ref in refs.items()),
        *({"ref": ref, "dependsOn": []} for ref in scripts),
    ]


def _needed_by(name: str) -> set[str]:
    try:
        wishes = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return set()
    return {normal(found[0]) for wish in wishes if (found := re.match(r"[A-Za-z0-9._-]+", wish))} - {name}


def _licence(name: str) -> dict[str, Any] | None:
    """None where the package is not installed here: it is for other machines."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    expression = about.get("License-Expression")
    if expression and _SPDX.fullmatch(expression):
        return {"expression": expression}
    for classifier in about.get_all("Classifier") or []:
        named = classifier.rpartition(" :: ")[2]
        if classifier.startswith("License :: ") and named in _NAMED:
            return {"license": {"id": _NAMED[named]}}
    text = (about.get("License") or "").strip().partition("\n")[0]
    return {"license": {"name": text[:100]}} if text else None


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def write(folder: Path) -> Path:
    wheels = list(folder.glob("*.whl"))
    versions = {wheel.name.split("-")[1] for wheel in wheels}
    if len(versions) != 1:
        raise SystemExit(f"{folder} has wheels of {len(versions)} versions: there should be one")
    [version] = versions
    now = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    file = folder / f"{wheels[0].name.split('-')[0]}-{version}.cdx.json"
    file.write_text(json.dumps(bill(wheels, version, now), indent=1) + "\n")
    return file


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
