"""What a lake holds by its listing: files, manifests, and where they do not agree.

Nothing is read but manifests that are new. A drain may put or remove files meanwhile, in its own order: a file before
its manifest, and a manifest away before its file. What does not fit together is looked at again in the order in which
it cannot be a drain's work.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.spark.jobs.seen import SeenManifest
from penstock.spark.lake import Lake
from penstock.spark.manifest import (
    LEDGER,
    MANIFESTS,
    MESSAGES,
    LakeFile,
    Manifest,
    Place,
    place_of_file,
    place_of_manifest,
)

_SHOWN = 3


@dataclass
class Inventory:
    """`manifests` has all that could be read. `known` are those whose rows an earlier audit has compared, `gone` those
    that have been taken away since then. `unnamed` has the files that no manifest names, by whose they would be."""

    lake: Lake
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
        files = lake.stored(MESSAGES, LEDGER)
        listed = {place: size for path, size in lake.stored(MANIFESTS).items() if (place := place_of_manifest(path))}
        inventory = cls(lake)
        inventory._read(listed, {it.manifest.place: it for it in seen}, in_doubt, is_full)
        inventory._compare_files(files)
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
        for place, manifest in zip(new, self.lake.manifests(new), strict=True):
            if isinstance(manifest, Manifest):
                self.manifests[place] = manifest
                if not is_full and place in seen and seen[place].manifest == manifest:
                    self.known.add(place)
            elif manifest is not None:  # none was taken away meanwhile
                self.findings.append(manifest)
        self.gone = {place: it for place, it in seen.items() if place not in listed and it.manifest.retired_at is None}

    def _compare_files(self, files: dict[str, int]) -> None:
        named = [(place, file) for place, it in self.manifests.items() if it.retired_at is None for file in it.files]
        odd = [(place, file) for place, file in named if files.get(file.path) != file.bytes]
        # Put after the files were listed, perhaps.
        sizes = self.lake.sizes([file.path for _, file in odd])
        wrong = [(*it, size) for it, size in zip(odd, sizes, strict=True) if size != it[1].bytes]
        # Or its manifest was taken away before it.
        places = sorted({place for place, _, _ in wrong}, key=_in_order)
        for place, manifest in zip(places, self.lake.manifests(places), strict=True):
            if isinstance(manifest, Manifest):
                self.manifests[place] = manifest
            else:
                del self.manifests[place]
        self.odd = [it for it in wrong if it[0] in self.manifests and self.manifests[it[0]].retired_at is None]
        self.broken.update(place for place, _, _ in self.odd)

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
        of_consumer = sum(
            len(it.files) for place, it in self.manifests.items() if it.retired_at is None and who_of(place) == who
        )
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
            if not any(part.startswith(("_", ".")) for part in path.split("/")):
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
