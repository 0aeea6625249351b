"""What the server has handed out as shipments and exports, and whether the lakes have it.

What was settled before the lakes were listed has to be in one of them. Of what is in a lake, the server is asked
afterwards: it was claimed before it was put there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock import limits
from penstock.client import Client, Export, QueueNotFound, Shipment
from penstock.spark.jobs.comparison import Located
from penstock.spark.jobs.drain import is_lane
from penstock.spark.jobs.inventory import Inventory, named, shortened, who_of
from penstock.spark.listing import Listing
from penstock.spark.manifest import Manifest, Place

_GIVEN_BACK = ("released", "lost")


@dataclass
class Claims:
    """`created` has the queues of the server, and when each was created. `elsewhere` names consumers whose shipments
    need not be in the lakes."""

    client: Client
    created: Mapping[str, int]
    elsewhere: Sequence[str]
    find: Callable[[str], None]
    # As the server says last.
    _shipments: dict[tuple[str, str], dict[int, Shipment]] = field(default_factory=dict)
    _exports: dict[Place, Export] = field(default_factory=dict)
    # Settled before the lakes were listed.
    _settled: dict[Place, Shipment] = field(default_factory=dict)
    _archived: dict[Place, Export] = field(default_factory=dict)
    # Settled, and not in these lakes, but nothing says that they should be.
    stored_elsewhere: list[Shipment] = field(default_factory=list)

    def ask(self, archivists: Collection[str]) -> None:
        """For all there are. Archivists are the known consumers of exports: one page may not hold them all."""
        for queue in self.created:
            try:
                found = [*self.client.shipments(queue)]
            except QueueNotFound:
                continue  # deleted meanwhile
            for it in found:
                self._shipments.setdefault((queue, it.consumer), {})[it.number] = it
                if it.state == "settled" and it.messages:
                    self._settled[Place(it.consumer, it.number, it.claimed_at, queue)] = it
        self._list_exports(archivists)
        self._archived = {place: it for place, it in self._exports.items() if it.has_ended and it.rows}

    def _list_exports(self, consumers: Collection[str] = ()) -> None:
        found = [*self.client.exports()]
        if len(found) >= limits.LIST_LIMIT:
            names = {it.consumer for it in found}.union(consumers)
            found = [it for name in names for it in self.client.exports(name)]
        self._exports |= {Place(it.consumer, it.number, it.claimed_at): it for it in found}

    def ask_about(self, places: Iterable[Place]) -> None:
        """What was claimed or has ended since they were listed."""
        asked = [place for place in places if not self.has_settled(place)]
        for queue, consumer in sorted({(it.queue, it.consumer) for it in asked if it.queue in self.created}):
            try:
                found = {it.number: it for it in self.client.shipments(queue or "", consumer)}
            except QueueNotFound:
                found = {}
            self._shipments[queue or "", consumer] = found
        if any(place.queue is None for place in asked):
            self._list_exports({place.consumer for place in asked if place.queue is None})

    # What the server says

    def has_settled(self, place: Place) -> bool:
        if place.queue is None:
            export = self._exports.get(place)
            return export is not None and export.has_ended
        shipment = self._of(place)
        return shipment is not None and shipment.state == "settled"

    def was_settled(self, place: Place) -> bool:
        """Before the lakes were listed."""
        return place in self._settled or place in self._archived

    def is_over(self, place: Place) -> bool:
        """Whether no one is at work on it. What the server does not know has ended long ago, or never was."""
        known = self._exports.get(place) if place.queue is None else self._of(place)
        return known is None or known.has_ended

    def is_valid(self, place: Place) -> bool:
        """Whether it was settled, as far as anybody knows."""
        known = self._of(place)
        return self.is_over(place) and (known is None or known.state == "settled")

    def is_of_the_queue(self, place: Place) -> bool:
        """Whether it was claimed from the queue that the server has now, under that name."""
        created_at = self.created.get(place.queue or "")
        return created_at is not None and place.claimed_at >= created_at

    def is_replaced(self, place: Place) -> bool:
        """Whether another claim has its number."""
        return self._of(place) is None and place.number in self._of_consumer(place)

    def knows(self, export: Place) -> bool:
        return export in self._exports

    def is_elsewhere(self, place: Place) -> bool:
        """Whether somebody has accounted for it."""
        for name in self.elsewhere:
            queue, slash, consumer = name.rpartition("/")
            if (not slash or queue == place.queue) and (
                place.consumer == consumer or is_lane(place.consumer, consumer)
            ):
                return True
        return False

    def _of(self, place: Place) -> Shipment | None:
        it = self._of_consumer(place).get(place.number)
        return it if it is not None and it.claimed_at == place.claimed_at else None

    def _of_consumer(self, place: Place) -> dict[int, Shipment]:
        return {} if place.queue is None else self._shipments.get((place.queue, place.consumer), {})

    # Comparisons

    def missing(self, located: Mapping[Place, Located], inventories: Sequence[Inventory], lakes: Sequence[str]) -> None:
        """What was settled is there, was retired, or is accounted for."""
        lost: dict[tuple[str, str], list[tuple[int, int]]] = {}
        unnamed = {place for it in inventories for place in it.unnamed}
        for place, it in self._settled.items():
            if place in located:
                continue
            if it.stored_in is None or self.is_elsewhere(place):
                self.stored_elsewhere.append(it)
                continue
            how = "settled, but not in the lake"
            if place in unnamed:
                how = "settled, but of the lake's file the manifest is gone"
            elif it.stored_in not in lakes:
                how = f"settled and stored in {it.stored_in}, but in no lake that was audited"
            lost.setdefault((who_of(place), how), []).append((it.number, it.messages))
        for (who, how), which in sorted(lost.items()):
            self._tell(who, "shipment", how, which)
        self._missing_exports(located, inventories)
        self._gone(located, inventories)

    def _missing_exports(self, located: Mapping[Place, Located], inventories: Sequence[Inventory]) -> None:
        """Exports do not say where they are stored: those of a consumer that has some in a lake are there."""
        archivists = {place.consumer for place in located if place.queue is None}
        archivists |= {place.consumer for it in inventories for place in it.gone if place.queue is None}
        lost: dict[str, list[tuple[int, int]]] = {}
        for place, it in self._archived.items():
            if place.consumer in archivists and place not in located and not self.is_elsewhere(place):
                lost.setdefault(who_of(place), []).append((it.number, it.rows))
        for who, which in sorted(lost.items()):
            self._tell(who, "export", "settled, but not in the lake", which)

    def _gone(self, located: Mapping[Place, Located], inventories: Sequence[Inventory]) -> None:
        """What an earlier audit has seen, and the server has forgotten since."""
        lost: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for place, seen in {place: it for inventory in inventories for place, it in inventory.gone.items()}.items():
            is_told = place in self._settled or place in self._archived
            if place not in located and not is_told and not self.is_elsewhere(place):
                kind = "export" if place.queue is None else "shipment"
                lost.setdefault((who_of(place), kind), []).append((place.number, seen.manifest.rows))
        for (who, kind), which in sorted(lost.items()):
            self._tell(who, kind, "no longer in the lake, as an earlier audit found it", which)

    def _tell(self, who: str, kind: str, how: str, which: Sequence[tuple[int, int]]) -> None:
        rows, unit = sum(rows for _, rows in which), "rows" if kind == "export" else "messages"
        verb = "is" if len(which) == 1 else "are"
        self.find(f"{who}: {named(kind, (number for number, _ in which))} {verb} {how} ({rows:,} {unit})")

    def strangers(self, located: Mapping[Place, Located]) -> None:
        """What is in a lake is what its shipment held, and was settled."""
        for place, one in sorted(located.items(), key=lambda it: (it[0].queue or "", it[0].consumer, it[0].number)):
            if place.queue is None:
                self._compare_export(place, one.manifest)
            elif self.is_of_the_queue(place):
                self._compare(place, one.manifest)

    def _compare(self, place: Place, manifest: Manifest) -> None:
        who, number, known = who_of(place), place.number, self._of_consumer(place)
        shipment = known.get(number)
        if shipment is None:
            # The server forgets shipments that ended long ago, but never the latest.
            if number > max(known, default=0) or min(known, default=1) < number:
                self.find(f"{who}: the lake has shipment {number}, which the server does not know")
        elif place.claimed_at != shipment.claimed_at:
            self.find(f"{who}: the lake's shipment {number} is not the server's: was the queue created again?")
        elif shipment.state in _GIVEN_BACK:
            if not self._has_writer(place):
                self.find(f"{who}: the lake has shipment {number}, which was {shipment.state}; a drain removes it")
        elif shipment.state == "settled" and manifest.rows != shipment.messages:
            self.find(
                f"{who}: shipment {number} held {shipment.messages:,} messages, the lake has {manifest.rows:,} of it"
            )

    def _compare_export(self, place: Place, manifest: Manifest) -> None:
        export = self._exports.get(place)
        if export is not None and manifest.rows != export.rows:
            self.find(
                f"{who_of(place)}: export {place.number} had {export.rows:,} rows, the lake has {manifest.rows:,} of it"
            )

    def unnamed(self, inventory: Inventory) -> None:
        """A file without a manifest is one that a drain is about to finish or to remove, or a stray."""
        strange: list[str] = []
        for place, paths in inventory.unnamed.items():
            if place is not None:
                if not self.is_over(place) or (place.queue is not None and self._has_writer(place)):
                    continue
                if self.has_settled(place) and self._is_told_or_there(place, inventory):
                    continue
            strange += paths
        if strange:
            names = shortened([inventory.lake.storage.address(path) for path in strange])
            self.find(f"no manifest names {'this file' if len(strange) == 1 else f'{len(strange):,} files'}: {names}")

    def _is_told_or_there(self, place: Place, inventory: Inventory) -> bool:
        before = self._settled.get(place)
        if before is not None and before.stored_in is not None:
            return True
        # What was settled meanwhile had its manifest put before.
        return isinstance(Listing(inventory.lake).manifests([place])[0], Manifest)

    def _has_writer(self, place: Place) -> bool:
        """Whether a drain of this consumer runs: it removes what was given back while it wrote."""
        names = {place.consumer, place.consumer.rpartition(".")[0]} - {""}
        try:
            return any(self.client.lease(place.queue or "", name) is not None for name in names)
        except QueueNotFound:
            return False
