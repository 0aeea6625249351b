"""Which shipment or export is in the lake, and what it came to: a manifest, put last and in one step.

    <lake>/_manifests/messages/queue=<q>/consumer=<c>/<n>-<claimed_at>.json
    <lake>/_manifests/ledger/consumer=<c>/<n>-<claimed_at>.json

What is in the lake no longer, because it was old enough, has a manifest that ends in `.retired.json` and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from penstock.spark.errors import JobFailed
from penstock.spark.storage import Storage

MESSAGES = "messages"
LEDGER = "ledger"
MANIFESTS = "_manifests"
# Of small files that are read at the same time.
_READ_AT_ONCE = 16
# What Hive, and so Spark, does not leave as it is in the name of a partition's folder.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_MANIFEST = re.compile(
    r"(?:queue=(?P<queue>[^/]*)/)?consumer=(?P<consumer>[^/]*)/"
    r"(?P<number>\d+)-(?P<claimed>\d+)(?:\.retired)?\.json"
)
_FILE = re.compile(
    rf"(?:{MESSAGES}/queue=(?P<queue>[^/]*)/consumer=(?P<consumer>[^/]*)/shipment=|"
    rf"{LEDGER}/consumer=(?P<archivist>[^/]*)/export=)(?P<number>\d+)/(?P<claimed>\d+)\.parquet"
)

K = TypeVar("K")
T = TypeVar("T")


def escaped(name: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


@dataclass(frozen=True, order=True)
class Place:
    """One claim of a shipment's or an export's number. An export has no queue."""

    consumer: str
    number: int
    claimed_at: int
    queue: str | None = None

    @property
    def root(self) -> str:
        return LEDGER if self.queue is None else MESSAGES

    @property
    def folder(self) -> str:
        last = f"export={self.number}" if self.queue is None else f"shipment={self.number}"
        return f"{self._of_consumer()}/{last}"

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.claimed_at}.parquet"

    @property
    def manifest(self) -> str:
        return f"{MANIFESTS}/{self._of_consumer()}/{self.number}-{self.claimed_at}.json"

    @property
    def retired_manifest(self) -> str:
        return f"{self.manifest.removesuffix('.json')}.retired.json"

    def _of_consumer(self) -> str:
        if self.queue is None:
            return f"{LEDGER}/consumer={escaped(self.consumer)}"
        return f"{MESSAGES}/queue={escaped(self.queue)}/consumer={escaped(self.consumer)}"


class LakeFile(Struct, frozen=True, omit_defaults=True):
    """`least` and `most` are the bounds of its ids, or of its numbers where it holds rows of the ledger; `oldest` and
    `newest` those of when its messages were sent, or when they were finished. Its rows are in the lake no longer if
    `retired_at` is there."""

    path: str
    rows: int
    bytes: int
    sha256: str
    least: str | int | None = None
    most: str | int | None = None
    oldest: int | None = None
    newest: int | None = None
    outcomes: dict[str, dict[str, int]] = {}
    retired_at: int | None = None


class Manifest(Struct, frozen=True, omit_defaults=True):
    """What a shipment or an export came to, as its files were written: a Delta table may hold the same rows in others
    by now. `bad` is how many of its rows have a body that did not decode; `outcomes` has the number of a ledger's rows
    by queue and outcome. Since `retired_at` none of its rows is kept."""

    consumer: str
    number: int
    claimed_at: int
    rows: int
    files: tuple[LakeFile, ...]
    queue: str | None = None
    bad: int = 0
    outcomes: dict[str, dict[str, int]] = {}
    retired_at: int | None = None

    @property
    def place(self) -> Place:
        return Place(self.consumer, self.number, self.claimed_at, self.queue)

    @property
    def kept(self) -> int:
        """How many of its rows the lake is to have."""
        return sum(file.rows for file in self.files if file.retired_at is None)

    @property
    def is_retired(self) -> bool:
        return self.retired_at is not None


def read_manifest(storage: Storage, place: Place) -> Manifest | None:
    """Also of what was retired."""
    for path in (place.manifest, place.retired_manifest):
        data = storage.read(path)
        if data is not None:
            try:
                return msgspec.json.decode(data, type=Manifest)
            except msgspec.DecodeError as error:
                raise JobFailed(f"{storage.address(path)} is not a manifest: {error}") from None
    return None


def put_manifest(storage: Storage, manifest: Manifest) -> None:
    place = manifest.place
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    if manifest.retired_at is not None:
        storage.put(place.retired_manifest, data)
        storage.remove(place.manifest)
    else:
        storage.put(place.manifest, data)


def places_below(storage: Storage, below: str, *, retired: bool = False) -> list[Place]:
    """Of the manifests there."""
    paths = [file.path for file in storage.files(f"{MANIFESTS}/{below}")]
    found = {place_of_manifest(path) for path in paths if path.endswith(".retired.json") == retired}
    return sorted((it for it in found if it is not None), key=lambda place: (place.queue or "", place))


def place_of_manifest(path: str) -> Place | None:
    """What the name of a manifest says that it is of."""
    name = _MANIFEST.search(path)
    if name is None:
        return None
    queue = name["queue"] if name["queue"] is None else unquote(name["queue"])
    return Place(unquote(name["consumer"]), int(name["number"]), int(name["claimed"]), queue)


def place_of_file(path: str) -> Place | None:
    """What the name of a plain file of rows says that it holds."""
    name = _FILE.fullmatch(path)
    if name is None:
        return None
    queue = name["queue"] if name["queue"] is None else unquote(name["queue"])
    return Place(unquote(name["consumer"] or name["archivist"]), int(name["number"]), int(name["claimed"]), queue)


def read_manifests(storage: Storage, places: Sequence[Place]) -> list[Manifest | str | None]:
    """Each as `read_manifest` has it; a text says why it is none."""

    def read(place: Place) -> Manifest | str | None:
        try:
            manifest = read_manifest(storage, place)
        except JobFailed as error:
            return str(error)
        if manifest is not None and manifest.place != place:
            return f"{storage.address(place.manifest)} is not the manifest of what its name says"
        return manifest

    return each(read, places)


def each(look: Callable[[K], T], which: Sequence[K]) -> list[T]:
    """What a look at small files takes is mostly the way there."""
    if len(which) < _READ_AT_ONCE:
        return [look(one) for one in which]
    with ThreadPoolExecutor(_READ_AT_ONCE, "look") as pool:
        return list(pool.map(look, which))


def manifests_below(storage: Storage, below: str) -> list[Manifest]:
    found = each(partial(read_manifest, storage), places_below(storage, below))
    return [manifest for manifest in found if manifest is not None]


def retired(manifest: Manifest, is_old: Callable[[LakeFile], bool], now: int) -> Manifest:
    files = tuple(
        msgspec.structs.replace(file, retired_at=now) if file.retired_at is None and is_old(file) else file
        for file in manifest.files
    )
    is_gone = all(file.retired_at is not None for file in files)
    return msgspec.structs.replace(manifest, files=files, retired_at=now if is_gone else None)


def summed(outcomes: Sequence[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for of_file in outcomes:
        for queue, counts in of_file.items():
            of_queue = total.setdefault(queue, {})
            for outcome, rows in counts.items():
                of_queue[outcome] = of_queue.get(outcome, 0) + rows
    return total
