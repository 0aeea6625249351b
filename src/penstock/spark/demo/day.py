"""The day in order: load the orders, let the workers work, then drain, archive, report and audit.

Times are the server's own: the day is over in seconds, and the report shows those seconds. At the end only the server
is gone: store, lake and report stay where they are.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from penstock.client import Client
from penstock.spark.demo.orders import order_lines
from penstock.spark.demo.server import PrivateServer
from penstock.spark.demo.workers import DEAD_LETTERS, EVENTS, ORDERS, Workers, create_queues
from penstock.spark.errors import JobFailed
from penstock.spark.jobs import Body, Run, Server, Shape, Summary, archive, audit, drain, load
from penstock.spark.jobs.run import timed
from penstock.spark.report import report
from penstock.terminal import Lines, Progress

MESSAGES = 5_000
SEED = 1
# The parts of the day and their share of the orders.
_PARTS = {"morning": 0.25, "noon": 0.45, "evening": 0.3}


@dataclass
class DemoSummary(Summary):
    folder: str
    seed: int
    messages: int
    lake: str = ""
    report: str = ""
    store: str = ""
    acked: int = 0
    failed: int = 0
    twins: int = 0
    dead_letters: int = 0
    drained: int = 0
    archived: int = 0
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return [f"the audit found: {finding}" for finding in self.findings]

    def lines(self) -> list[str]:
        lake, query = shlex.quote(self.lake), "select outcome, count(*) from ledger group by outcome"
        return [
            f"{self.messages:,} orders, {self.acked:,} times a worker was done and {self.failed:,} times it failed, "
            f"{self.dead_letters:,} dead letters, {self.twins:,} twins not stored, in {self.seconds:.0f} s",
            f"{self.drained:,} events drained and {self.archived:,} ledger rows archived; "
            f"the audit says: {'everything adds up' if not self.findings else f'{len(self.findings):,} findings'}",
            "",
            f"The report: open {self.report}",
            f"The lake:   {self.lake}",
            "  from penstock.spark import open_session",
            f"  spark = open_session(); spark.read.parquet({json.dumps(f'{self.lake}/ledger')})"
            '.createOrReplaceTempView("ledger")',
            f"  spark.sql({json.dumps(query)}).show()",
            "The server again, with all its messages, and its dead letters sorted:",
            f"  penstock serve --store {shlex.quote(self.store)}",
            f"  penstock pipeline triage {DEAD_LETTERS[ORDERS]}",
            f"  penstock pipeline audit --lake {lake}",
            f"All of it is in {self.folder}; remove that folder when you have seen enough.",
        ]


def demo(
    folder: str | None = None, *, messages: int = MESSAGES, seed: int = SEED, run: Run | None = None
) -> DemoSummary:
    """Needs nothing but an empty or new folder, or makes a temporary one. Without a `run` it tells its progress in
    lines."""
    if messages < 1:
        raise JobFailed("a day needs at least one order")
    run = run or Run(progress=Lines())
    place = _made(folder)
    summary = DemoSummary(str(place), seed, messages, str(place / "lake"), str(place / "report.html"))
    say = run.progress.say
    say(f"everything is in {place}")
    with timed(summary), PrivateServer(place) as server:
        summary.store = server.store
        say(f"a server of our own at {server.url}, its log in {server.log}")
        say("starting Spark, which takes a few seconds")
        with run.session("demo") as session, Client(server.url) as client:
            _Day(Server(server.url), Run(session), client, place, summary, run.progress).all()
    return summary


def _made(folder: str | None) -> Path:
    if folder is None:
        return Path(mkdtemp(prefix="penstock-demo-"))
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise JobFailed(f"{place} is not empty: a demo starts in an empty folder")
    return place


@dataclass
class _Day:
    """`run` is that of the jobs, whose progress is not told."""

    server: Server
    run: Run
    client: Client
    folder: Path
    summary: DemoSummary
    progress: Progress

    def all(self) -> None:
        create_queues(self.client)
        workers = Workers(self.client, self.summary.seed)
        for part, count in _shares(self.summary.messages).items():
            self._load(part, count)
            workers.work()
        done = workers.done
        self.summary.acked, self.summary.failed, self.summary.twins = done.acked, done.failed, done.twins
        self.summary.dead_letters = sum(self._count(queue) for queue in DEAD_LETTERS.values())
        self._pipeline()

    def _count(self, queue: str) -> int:
        count = self.client.queue(queue).count
        return count.total if count else 0

    def _load(self, part: str, count: int) -> None:
        file = self.folder / "orders" / f"{part}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in order_lines(count, self.summary.seed, part)), "utf-8")
        shape = Shape(format="text", content_type="application/json")
        loaded = load(self.server, [str(file)], ORDERS, shape=shape, run=self.run)
        self.progress.say(f"{part}: loaded {loaded.stored:,} orders from {file}; the workers begin")

    def _pipeline(self) -> None:
        summary, lake = self.summary, self.summary.lake
        body = Body("json", "order STRING, event STRING")
        drained = drain(self.server, EVENTS, lake, body=body, run=self.run)
        summary.drained = drained.messages
        self._say(drained.lines())
        archived = archive(self.server, lake, run=self.run)
        summary.archived = archived.rows
        self._say(archived.lines())
        self._say(report(lake, summary.report, server=self.server, run=self.run).lines())
        audited = audit(self.server, lake, run=self.run)
        summary.findings = [*drained.problems, *archived.problems, *audited.problems]
        self._say([*audited.lines(), *audited.problems])

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            self.progress.say(line)


def _shares(messages: int) -> dict[str, int]:
    """Whole orders, as many as were asked for."""
    shares = {part: int(messages * share) for part, share in _PARTS.items()}
    shares["noon"] += messages - sum(shares.values())
    return {part: count for part, count in shares.items() if count}
