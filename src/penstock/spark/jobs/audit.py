"""`audit`: nothing lost, nothing twice. It compares the server's counters, its ledger, its shipments and the lakes.

It changes nothing but its own record of what it has seen. What does not add up is a finding; messages that come and go
meanwhile are allowed for, and so are drains. They put a file, its manifest, and settle, in that order: whatever is
settled before the lakes are listed has to be there, and of what is in a lake the server is asked afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.client import Client, Queue, QueueNotFound, Tally
from penstock.clock import system_clock
from penstock.spark.errors import JobFailed
from penstock.spark.jobs.claims import Claims
from penstock.spark.jobs.comparison import Located, Looked, RowComparison, chain_of, damages, kept_files, look_at
from penstock.spark.jobs.inventory import Inventory
from penstock.spark.jobs.run import Run, settings, timed
from penstock.spark.jobs.seen import LedgerMark, Memory, OpenFinding, Seen, SeenManifest, SeenQueue, keep
from penstock.spark.jobs.verdict import AuditSummary, write_metrics, write_verdict
from penstock.spark.lake import Lake
from penstock.spark.manifest import Place
from penstock.spark.server import Server, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Queues with more messages are counted when everything is looked at.
COUNTED_MESSAGES = 200_000
_ROWS_PER_PARTITION = 250_000


def audit(
    server: Server,
    lake: str | Sequence[str] | None = None,
    *,
    elsewhere: Sequence[str] = (),
    full: bool = False,
    deep: bool = False,
    to: str | None = None,
    metrics: str | None = None,
    run: Run = Run(),
) -> AuditSummary:
    """Without a lake, the counters and the server's own ledger are compared.

    Rows are read of what is new since the last audit of the lake, or with `full` of everything; `deep` is a full audit
    that reads files as a whole. `elsewhere` names consumers, or a queue and a consumer with a slash in between, whose
    shipments need not be in these lakes. The verdict is written `to` a file, as JSON, and `metrics` to one for
    Prometheus' node exporter."""
    addresses = [lake] if isinstance(lake, str) else list(lake or ())
    summary = AuditSummary(addresses, run.dry_run)
    with timed(summary), server.client() as client:
        names = [queue.name for queue in client.queues(count=False)]
        summary.queues = len(names)
        if run.dry_run:
            return summary
        with run.session("audit") as session:
            lakes = [Lake(session, address) for address in addresses]
            summary.lakes = [lake.address for lake in lakes]
            job = _Audit(session, server, client, lakes, elsewhere, full or deep, deep, summary, run)
            job.all(names)
    summary.finished_at = system_clock()
    if to is not None:
        write_verdict(to, summary)
    if metrics is not None:
        write_metrics(metrics, summary)
    return summary


@dataclass(frozen=True)
class _Known:
    """A queue as it was when the audit began."""

    created_at: int
    has_ledger: bool
    messages: int
    tally: Tally

    @classmethod
    def of(cls, queue: Queue) -> _Known:
        assert queue.count is not None and queue.tally is not None  # noqa: S101, PT018  it was asked for by name
        has_ledger = queue.settings.get("ledger") != "off"
        return cls(queue.created_at, has_ledger, queue.count.total, queue.tally)


@dataclass
class _Audit:
    """The comparisons: each finds something, or nothing."""

    spark: SparkSession
    server: Server
    client: Client
    lakes: list[Lake]
    elsewhere: Sequence[str]
    is_full: bool
    is_deep: bool
    summary: AuditSummary
    run: Run

    def __post_init__(self) -> None:
        self.memory = Memory.of(self.lakes, self.server.url, self.client)
        self.is_full = self.is_full or not any(seen.manifests or seen.mark.number for seen in self.memory.of_lake)
        if self.is_full:
            self.memory.forget()
        self.summary.full = self.is_full
        self.queues: dict[str, _Known] = {}
        self.inventories: list[Inventory] = []
        # What is in the lakes, each shipment and export once.
        self.located: dict[Place, Located] = {}
        self.comparison = RowComparison(self.spark, self.server)
        self.findings: list[OpenFinding] = []
        self.damaged: set[Place] = set()
        self.counts: dict[str, SeenQueue] = {}

    def all(self, names: Sequence[str]) -> None:
        say = self.run.progress.say
        # Before anything else: the ledger's rows of what is settled from now on come after it.
        mark = LedgerMark.latest(self.client)
        self._ask(names)
        self.claims = Claims(
            self.client, {name: it.created_at for name, it in self.queues.items()}, self.elsewhere, self._find
        )
        say(f"counting the messages of {len(names):,} queues")
        self.counters()
        if self.lakes:
            say("comparing the lakes with the shipments")
            self.shipments()
        new = self._new()
        standing = self._recheck(new)
        say(f"looking at {len(new):,} new files" if not self.is_full else f"looking at all {len(new):,} files")
        touched = self.files(new)
        try:
            with settings(self.spark, self._partitions(new)):
                say("comparing the ledger")
                through = LedgerMark.latest(self.client).number
                rows = self._ledger(self.memory.mark.number, through)
                self.ledger(rows, mark)
                say("looking for messages twice, or without a ledger row")
                self.twice(new, touched)
                unfinished = self.processed(new, rows, through)
        finally:
            self.comparison.close()
        self._remember(new, mark, unfinished, standing)

    # What there is

    def _ask(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(QueueNotFound):  # deleted meanwhile
                self.queues[name] = _Known.of(self.client.queue(name))

    def shipments(self) -> None:
        """The server is asked before the lakes are listed, and once more for what only they have."""
        known = [it.manifest for seen in self.memory.of_lake for it in seen.manifests]
        self.claims.ask({it.consumer for it in known if it.queue is None})
        self._list()
        self.claims.ask_about(self.located)
        self.claims.ask_about(place for it in self.inventories for place in it.unnamed if place is not None)
        self.claims.missing(self.located, self.inventories, self.summary.lakes)
        unfinished = {place for place in self.located if not self.claims.is_over(place)}
        for inventory in self.inventories:
            for text in inventory.told(unfinished) + inventory.short(self.claims.was_settled):
                self._find(text)
            self.claims.unnamed(inventory)
        self.claims.strangers(self.located)
        self.summary.elsewhere = len(self.claims.stored_elsewhere)
        self.summary.elsewhere_messages = sum(it.messages for it in self.claims.stored_elsewhere)

    def _list(self) -> None:
        summary = self.summary
        in_doubt = {place for finding in self.memory.findings for place in finding.places}
        for lake, seen in zip(self.lakes, self.memory.of_lake, strict=True):
            inventory = Inventory.of(lake, seen.manifests, in_doubt, self.is_full)
            self.inventories.append(inventory)
            for place, manifest in inventory.manifests.items():
                # The same claim in two lakes is a copy.
                if place not in self.located or not self.located[place].is_whole:
                    self.located[place] = Located(
                        lake, manifest, place not in inventory.broken, inventory.is_merged(place)
                    )
        for place, one in self.located.items():
            if place.queue is None:
                continue
            if one.manifest.is_retired:
                summary.retired += 1
                summary.retired_messages += one.manifest.rows
            else:
                summary.shipments += 1
                summary.messages += one.manifest.kept

    # Counters and ledger

    def counters(self) -> None:
        """What has arrived is there or has departed. The server's own count comes from the same counters, so the
        messages themselves are counted; some may arrive or depart meanwhile."""
        for name, before in self.queues.items():
            arrived, departed = before.tally.arrived, before.tally.departed
            self.summary.arrived += arrived
            self.summary.departed += departed
            if before.messages > COUNTED_MESSAGES and not self.is_full:
                self.summary.live += before.messages
                self.summary.uncounted.append(name)
                continue
            live = self.comparison.live(self.client, name, before.messages)
            self.summary.live += live
            try:
                after = counted(self.client, name)[1]
            except QueueNotFound:
                continue  # deleted meanwhile
            if not arrived - after.departed <= live <= after.arrived - departed:
                self._find(f"{name}: {arrived:,} arrived, but {live:,} are live and {departed:,} have departed")

    def _ledger(self, after: int, through: int) -> DataFrame | None:
        exports = [one for one in self._readable() if one.place.queue is None]
        chain = chain_of(exports, after, [place for place in self.located if place.queue is None], self.claims.knows)
        return self.comparison.ledger(chain or exports, bool(chain), after, through)

    def ledger(self, rows: DataFrame | None, mark: LedgerMark) -> None:
        """A message that has departed has a row, in a lake or still only in the server's ledger. Rows of a deleted
        queue with the same name do not count."""
        found: dict[str, tuple[int, int]] = {}
        if rows is not None:
            created = [(name, queue.created_at) for name, queue in self.queues.items()]
            known = self.spark.createDataFrame(created, "queue string, created_at bigint")
            fresh = rows.join(F.broadcast(known), "queue")
            fresh = fresh.where(F.unix_millis("finished_at") >= F.col("created_at"))
            # The messages of a deleted queue are purged one after the other, perhaps when there is a new one.
            fresh = fresh.where((F.col("outcome") != "purged") | (F.unix_millis("sent_at") >= F.col("created_at")))
            until_mark = F.count_if(F.col("number") <= mark.number).alias("until_mark")
            for row in fresh.groupBy("queue").agg(F.count(F.lit(1)).alias("n"), until_mark).collect():
                found[row.queue] = (row.n, row.until_mark)
                self.summary.compared += row.n
        for name, before in self.queues.items():
            seen = self.memory.queues.get(name)
            counted_before = seen.rows if seen is not None and seen.created_at == before.created_at else 0
            new, until = found.get(name, (0, 0))
            self.counts[name] = SeenQueue(before.created_at, counted_before + until)
            self.summary.ledger_rows += counted_before + new
            if not before.has_ledger:
                continue
            try:
                after = counted(self.client, name)[1]
            except QueueNotFound:
                continue  # deleted meanwhile
            total, least, most = counted_before + new, before.tally.departed, after.departed
            if not least <= total <= most:
                self._find(f"{name}: {least:,} messages have departed, but there are {total:,} ledger rows")

    # Rows

    def _readable(self) -> list[Located]:
        """What was settled, as far as anybody knows, and can be read."""
        return [
            one
            for place, one in self.located.items()
            if one.is_whole
            and not one.manifest.is_retired
            and place not in self.damaged
            and self.claims.is_valid(place)
        ]

    def _new(self) -> dict[Place, Located]:
        """What no audit has compared yet."""
        known = {place for it in self.inventories for place in it.known}
        return {one.place: one for one in self._readable() if one.place not in known}

    def _recheck(self, new: dict[Place, Located]) -> list[OpenFinding]:
        """The findings of earlier audits that stand. Where something has changed, the places of one are new again, and
        so are those of others that are about one of them."""
        standing = list(self.memory.findings)
        readable = {one.place: one for one in self._readable()}
        exports = [one for place, one in new.items() if place.queue is None]
        changed = {place for finding in standing for place in finding.places if place not in readable or place in new}
        for finding in standing:
            if not changed.intersection(finding.places):
                which = [readable[place] for place in finding.places]
                changed.update(finding.places if self._is_mended(finding, which, exports) else ())
        while reopened := [finding for finding in standing if changed.intersection(finding.places)]:
            for finding in reopened:
                standing.remove(finding)
                changed.update(finding.places)
        new |= {place: readable[place] for place in changed if place in readable}
        for finding in standing:
            self._find(finding.text)
            self.damaged.update(finding.places if finding.is_damage else ())
        return standing

    def _is_mended(self, finding: OpenFinding, which: Sequence[Located], exports: Sequence[Located]) -> bool:
        if finding.is_damage:
            return not damages(which, self._look(which, (), is_deep=True))
        return bool(finding.ids) and self.comparison.has_row_of(finding.ids, exports)

    def files(self, new: dict[Place, Located]) -> list[Located]:
        """Each new file can be read, and has the rows that its manifest says. What cannot is no longer new. Gives the
        old ones whose ids lie around new ones."""
        old = [one for one in self._readable() if one.place not in new and one.place.queue is not None]
        bounds = [
            (file.least, file.most, at)
            for at, one in enumerate(old)
            for file in kept_files(one)
            if isinstance(file.least, str) and isinstance(file.most, str)
        ]
        looked = self._look(list(new.values()), [(least, most) for least, most, _ in bounds], self.is_deep)
        merged = [one for one in new.values() if one.is_merged]
        for place, text in damages(list(new.values()), looked) + self.comparison.merged(merged):
            new.pop(place, None)
            self.damaged.add(place)
            self._find_in_rows(OpenFinding(text, [place], is_damage=True))
        touched = {bounds[at][2] for it in looked.values() for at in it.touched}
        return [old[at] for at in sorted(touched)]

    def _look(
        self, which: Sequence[Located], bounds: Sequence[tuple[str, str]], is_deep: bool
    ) -> dict[tuple[str, str], Looked]:
        return look_at(self.spark, self.run.slices(self.spark), which, bounds, is_deep) if which else {}

    def twice(self, new: dict[Place, Located], touched: Sequence[Located]) -> None:
        """No message is in the lakes twice, for one consumer or for two."""
        messages = [one for place, one in new.items() if place.queue is not None]
        self.summary.new_shipments = len(messages)
        self.summary.new_messages = sum(one.manifest.rows for one in messages)
        if not messages:
            return
        self.summary.compared += sum(one.manifest.rows for one in (*messages, *touched))
        found = self.comparison.twice(messages, touched)
        if found is not None:
            text = f"{found.messages:,} messages are in the lake more than once: {found.shown}"
            self._find_in_rows(OpenFinding(text, found.places))

    def processed(self, new: dict[Place, Located], rows: DataFrame | None, through: int) -> set[Place]:
        """Each message has left its queue as processed. Gives the shipments of which that cannot be said yet."""
        drained = [
            one
            for place, one in new.items()
            if self.claims.is_of_the_queue(place)
            and self.queues[place.queue or ""].has_ledger
            and not self.claims.is_replaced(place)
        ]
        if not drained:
            return set()
        start = self.memory.mark.number
        earlier = partial(self._ledger, 0, start) if start else _nothing
        lacking, unfinished = self.comparison.lacking(drained, rows, through, earlier)
        for queue, it in sorted(lacking.items()):
            text = f"{queue}: {it.messages:,} drained messages have no ledger row as processed, such as {it.ids[0]}"
            self._find_in_rows(OpenFinding(text, it.places, it.ids))
        return unfinished

    def _partitions(self, new: dict[Place, Located]) -> dict[str, str]:
        rows = sum(one.manifest.rows for one in new.values())
        wanted = max(self.run.slices(self.spark), rows // _ROWS_PER_PARTITION)
        return {"spark.sql.shuffle.partitions": str(wanted)}

    # What is found and kept

    def _find(self, text: str) -> None:
        self.summary.findings.append(text)

    def _find_in_rows(self, finding: OpenFinding) -> None:
        self.findings.append(finding)
        self._find(finding.text)

    def _remember(
        self,
        new: dict[Place, Located],
        mark: LedgerMark,
        unfinished: Collection[Place],
        standing: Sequence[OpenFinding],
    ) -> None:
        """Where something is not finished, the next audit begins where this one did."""
        if unfinished:
            mark, self.counts = self.memory.mark, dict(self.memory.queues)
        findings = [*standing, *self.findings]
        in_doubt = {place for finding in findings for place in finding.places}
        for inventory in self.inventories:
            compared = [
                SeenManifest(inventory.bytes[place], manifest)
                for place, manifest in inventory.manifests.items()
                if place not in unfinished
                and place not in inventory.broken
                and (place in new or place in inventory.known or place in in_doubt or manifest.is_retired)
            ]
            gone = [it for place, it in inventory.gone.items() if not self.claims.is_elsewhere(place)]
            try:
                keep(inventory.lake, self.server.url, Seen(mark, self.counts, compared + gone, findings))
            except (OSError, JobFailed) as error:
                self.run.progress.say(f"the next audit looks at everything again: {error}")


def _nothing() -> None:
    return None
