"""What a lake holds by its listing: files, manifests, and where they do not agree.

Nothing is read but manifests that are new. A drain may put or remove files meanwhile, in its own order: a file before
its manifest, and a manifest away before its file. What does not fit together is looked at again in the order in which
it cannot be a drain's work.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.spark.jobs.seen import SeenManifest
from penstock.spark.lake import Lake
from penstock.spark.listing import Listing
from penstock.spark.manifest import LakeFile, Manifest, Place, place_of_file
from penstock.spark.tables import LoggedFile

_SHOWN = 3


@dataclass
class Inventory:
    """`manifests` has all that could be read. `known` are those whose rows an earlier audit has compared, `gone` those
    that have been taken away since then. `unnamed` has the files that no manifest names, by whose they would be."""

    lake: Lake
    logs: dict[str, dict[str, LoggedFile]] = field(default_factory=dict)
    manifests: dict[Place, Manifest] = field(default_factory=dict)
    bytes: dict[Place, int] = field(default_factory=dict)
    known: set[Place] = field(default_factory=set)
    gone: dict[Place, SeenManifest] = field(default_factory=dict)
    # Files that are missing, or have another size than their manifest says; and whose rows therefore are not read.
    odd: list[tuple[Place, LakeFile, int | None]] = field(default_factory=list)
    broken: set[Place] = field(default_factory=set)
    unnamed: dict[Place | None, list[str]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, lake: Lake, seen: Sequence[SeenManifest], in_doubt: Container[Place], is_full: bool) -> Inventory:
        """Manifests that were seen are taken to be as they were if they are as long, but for those in doubt. With
        `is_full`, what was seen says only what is gone."""
        listing = Listing(lake)
        logs = listing.logs()
        files = listing.files()
        listed = listing.manifest_sizes()
        inventory = cls(lake, logs)
        inventory._read(listed, {it.manifest.place: it for it in seen}, in_doubt, is_full)
        inventory._compare_files(files)
        inventory._compare_logs(files)
        inventory._look_for_unnamed(files)
        return inventory

    def _read(
        self, listed: dict[Place, int], seen: dict[Place, SeenManifest], in_doubt: Container[Place], is_full: bool
    ) -> None:
        self.bytes = listed
        if not is_full:
            as_long = {place for place, size in listed.items() if place in seen and seen[place].bytes == size}
            self.known = {place for place in as_long if place not in in_doubt}
        self.manifests = {place: seen[place].manifest for place in self.known}
        new = sorted(listed.keys() - self.known, key=_in_order)
        for place, manifest in zip(new, Listing(self.lake).manifests(new), strict=True):
            if isinstance(manifest, Manifest):
                self.manifests[place] = manifest
                if not is_full and place in seen and seen[place].manifest == manifest:
                    self.known.add(place)
            elif manifest is not None:  # none was taken away meanwhile
                self.findings.append(manifest)
        self.gone = {place: it for place, it in seen.items() if place not in listed and not it.manifest.is_retired}

    def _compare_files(self, files: dict[str, int]) -> None:
        named = [
            (place, file)
            for place, it in self.manifests.items()
            for file in it.files
            if file.retired_at is None and place.root not in self.logs
        ]
        odd = [(place, file) for place, file in named if files.get(file.path) != file.bytes]
        # Put after the files were listed, perhaps.
        sizes = Listing(self.lake).sizes([file.path for _, file in odd])
        wrong = [(*it, size) for it, size in zip(odd, sizes, strict=True) if size != it[1].bytes]
        # Or its manifest was taken away before it.
        places = sorted({place for place, _, _ in wrong}, key=_in_order)
        for place, manifest in zip(places, Listing(self.lake).manifests(places), strict=True):
            if isinstance(manifest, Manifest):
                self.manifests[place] = manifest
            else:
                del self.manifests[place]
        kept = {file.path for it in self.manifests.values() for file in it.files if file.retired_at is None}
        self.odd = [it for it in wrong if it[1].path in kept]
        self.broken.update(place for place, _, _ in self.odd)

    def _compare_logs(self, files: dict[str, int]) -> None:
        """A table with a log says itself what its files are, and may have written the rows of manifests to others."""
        for root, log in self.logs.items():
            odd = [it for it in log.values() if files.get(it.path) != it.bytes]
            if odd:
                # What a merge has replaced may have been removed meanwhile.
                now = Listing(self.lake).logs().get(root, {})
                odd = [it for it in odd if it.path in now]
            if odd:
                names = shortened([self.lake.storage.address(it.path) for it in odd])
                self.findings.append(
                    f"{root}: the table's log names files that are missing or of another size: {names}"
                )
                # Any row may be in one of them.
                self.broken.update(place for place in self.manifests if place.root == root)

    def is_merged(self, place: Place) -> bool:
        """Whether its rows are in other files by now than its manifest says."""
        log = self.logs.get(place.root)
        kept = (file.path for file in self.manifests[place].files if file.retired_at is None)
        return log is not None and any(path not in log for path in kept)

    def short(self, is_due: Callable[[Place], bool]) -> list[str]:
        """The queues of which a table has fewer rows than manifests say, by the log alone. Due is what was there before
        the log was read."""
        findings = []
        for root, log in self.logs.items():
            found: dict[str | None, int] = {}
            for it in log.values():
                queue = it.constants.get("queue")
                found[queue] = found.get(queue, 0) + (it.rows or 0)
            due: dict[str | None, int] = {}
            for place, manifest in self.manifests.items():
                if place.root == root and is_due(place):
                    due[place.queue] = due.get(place.queue, 0) + manifest.kept
            for queue, rows in sorted(due.items(), key=lambda it: it[0] or ""):
                if found.get(queue, 0) < rows and all(it.rows is not None for it in log.values()):
                    findings.append(
                        f"{queue or root}: the table has {found.get(queue, 0):,} rows, but manifests name {rows:,}"
                    )
        return findings

    def told(self, unfinished: Container[Place]) -> list[str]:
        """The findings; what a drain has not finished is none of them."""
        findings = list(self.findings)
        missing: dict[str, list[LakeFile]] = {}
        for place, file, size in self.odd:
            if place in unfinished:
                continue
            if size is None:
                missing.setdefault(who_of(place), []).append(file)
            else:
                address = self.lake.storage.address(file.path)
                findings.append(f"{address} has {size:,} bytes, but its manifest says {file.bytes:,}")
        return findings + [self._missing(who, lost) for who, lost in sorted(missing.items())]

    def _missing(self, who: str, lost: Sequence[LakeFile]) -> str:
        rows = sum(file.rows for file in lost)
        named = [file for place, it in self.manifests.items() if who_of(place) == who for file in it.files]
        of_consumer = sum(file.retired_at is None for file in named)
        if len(lost) == of_consumer:
            return (
                f"{who}: its folder is gone from {self.lake.address}; manifests name {len(lost):,} files there, with "
                f"{rows:,} rows"
            )
        names = shortened([self.lake.storage.address(file.path) for file in lost])
        return f"{who}: manifests name files that are missing, with {rows:,} rows: {names}"

    def _look_for_unnamed(self, files: dict[str, int]) -> None:
        named = {file.path for manifest in self.manifests.values() for file in manifest.files}
        for path in sorted(files.keys() - named):
            is_hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
            # What the log of a table does not name, no reader sees, and a vacuum removes.
            if not is_hidden and path.partition("/")[0] not in self.logs:
                self.unnamed.setdefault(place_of_file(path), []).append(path)


def _in_order(place: Place) -> tuple[str, Place]:
    """Those of exports, which have no queue, first."""
    return place.queue or "", Place(place.consumer, place.number, place.claimed_at)


def who_of(place: Place) -> str:
    return f"ledger, consumer {place.consumer}" if place.queue is None else f"{place.queue}, consumer {place.consumer}"


def named(kind: str, numbers: Iterable[int]) -> str:
    """Such as `shipment 7`, or `shipments 1 to 3 and 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return f"{kind} {runs[0][0]}"
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in runs[: _SHOWN + 1]]
    if len(runs) > _SHOWN + 1:
        shown[-1] = f"{len(runs) - _SHOWN} more ranges"
    return f"{kind}s {', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else f"{kind}s {shown[0]}"


def shortened(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts) if more <= 0 else f"{', '.join(texts[:_SHOWN])} and {more:,} more"
