"""What an audit has seen, kept in the lake, so that the next one looks at the rows of what is new only.

    <lake>/_audit/<server>.json

It is put as a whole when an audit is over, and moves with the lake. An audit whose record is lost, or is another
store's, looks at everything again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from penstock.client import Client
from penstock.spark.lake import Lake
from penstock.spark.listing import Listing
from penstock.spark.manifest import Manifest, Place

_FOLDER = "_audit"
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class SeenManifest(Struct, frozen=True, array_like=True):
    """A manifest whose rows were compared, and how many bytes it had itself."""

    bytes: int
    manifest: Manifest


class SeenQueue(Struct, frozen=True, array_like=True):
    """How many rows the ledger had of a queue, up to a mark."""

    created_at: int
    rows: int


class LedgerMark(Struct, frozen=True, array_like=True):
    """A row of the server's ledger. Its message tells whether the number means the same row later."""

    number: int = 0
    id: str | None = None

    @classmethod
    def latest(cls, client: Client) -> LedgerMark:
        rows = client.latest(limit=1).rows
        return cls(rows[0].number, rows[0].id) if rows else cls()

    def fits(self, client: Client) -> bool:
        """Whether the server's ledger is the one that it was. What has been freed cannot tell."""
        if self.number == 0:
            return True
        for row in client.ledger(after=self.number - 1, per_page=1):
            return row.number != self.number or row.id == self.id
        return not client.latest(limit=1).rows


class OpenFinding(Struct, frozen=True):
    """A finding in rows. It stands, without reading them again, until something has changed about what it is about:
    these places, or what the ledger knows of these messages. `is_damage` is said of a file that is not as its manifest
    says."""

    text: str
    places: list[Place]
    ids: list[str] = []
    is_damage: bool = False


class Seen(Struct, frozen=True, omit_defaults=True):
    """`mark` is the ledger's last row when the audit began, before it looked for shipments: the rows of what was not
    settled then all come after it."""

    mark: LedgerMark = LedgerMark()
    queues: dict[str, SeenQueue] = {}
    manifests: list[SeenManifest] = []
    findings: list[OpenFinding] = []


@dataclass
class Memory:
    """Of the last audits of some lakes: what holds for all of them."""

    of_lake: list[Seen]
    mark: LedgerMark = field(init=False)
    queues: dict[str, SeenQueue] = field(init=False)
    findings: list[OpenFinding] = field(init=False)

    def __post_init__(self) -> None:
        # A lake that is new, or was audited alone, has seen less of the ledger.
        least = min(self.of_lake, key=lambda seen: seen.mark.number, default=Seen())
        self.mark = least.mark
        self.queues = least.queues
        self.findings = list({finding.text: finding for seen in self.of_lake for finding in seen.findings}.values())

    @classmethod
    def of(cls, lakes: Sequence[Lake], url: str, client: Client) -> Memory:
        memory = cls([_load(lake, _path(url)) for lake in lakes])
        if all(seen.mark.fits(client) for seen in memory.of_lake):
            return memory
        return cls([Seen() for _ in lakes])

    def forget(self) -> None:
        """All but what was there: everything is looked at again."""
        self.mark, self.queues, self.findings = LedgerMark(), {}, []


def keep(lake: Lake, url: str, seen: Seen) -> None:
    Listing(lake).put(_path(url), msgspec.json.encode(seen))


def _load(lake: Lake, path: str) -> Seen:
    data = Listing(lake).read(path)
    if data is None:
        return Seen()
    try:
        return msgspec.json.decode(data, type=Seen)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Seen()


def _path(url: str) -> str:
    return f"{_FOLDER}/{_UNFIT.sub('-', url.partition('://')[2] or url)}.json"
