"""What an audit came to: for people, as JSON, and as metrics that Prometheus' node exporter reads from a file. Each
file is replaced as a whole."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import uuid4

import msgspec

from penstock.spark.errors import JobFailed
from penstock.spark.jobs.inventory import shortened
from penstock.spark.jobs.run import Summary
from penstock.spark.storage import Storage, scheme_of


@dataclass
class AuditSummary(Summary):
    """`compared` are the rows that were read, of the lakes and of the ledger; `elsewhere` are settled shipments that no
    lake given has to have."""

    lakes: list[str]
    dry_run: bool = False
    full: bool = True
    queues: int = 0
    arrived: int = 0
    live: int = 0
    departed: int = 0
    uncounted: list[str] = field(default_factory=list)
    ledger_rows: int = 0
    shipments: int = 0
    messages: int = 0
    new_shipments: int = 0
    new_messages: int = 0
    compared: int = 0
    elsewhere: int = 0
    elsewhere_messages: int = 0
    retired: int = 0
    retired_messages: int = 0
    findings: list[str] = field(default_factory=list)
    finished_at: int = 0
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        return self.findings

    def lines(self) -> list[str]:
        lakes = ", ".join(self.lakes)
        if self.dry_run:
            place = f" and {'lakes' if len(self.lakes) > 1 else 'the lake'} at {lakes}" if lakes else ""
            return [f"would audit {self.queues:,} queues{place}"]
        lines = [f"{self.queues:,} queues: {self.arrived:,} arrived, {self.live:,} live, {self.departed:,} departed"]
        if self.uncounted:
            lines.append(f"not counted one by one, as with --full: {shortened(self.uncounted)}")
        if lakes:
            new = "all looked at" if self.full else f"{self.new_messages:,} of {self.new_shipments:,} new"
            lines.append(
                f"{lakes}: {self.messages:,} messages of {self.shipments:,} shipments, {new}; with the server's, "
                f"{self.ledger_rows:,} ledger rows"
            )
        if self.elsewhere:
            lines.append(f"stored elsewhere: {self.elsewhere_messages:,} messages of {self.elsewhere:,} shipments")
        if self.retired:
            lines.append(f"retired: {self.retired_messages:,} messages of {self.retired:,} shipments")
        found = f"{len(self.findings):,} findings" if self.findings else "everything adds up"
        return [*lines, f"{found} ({self.seconds:.1f} s)"]


def write_verdict(path: str, summary: AuditSummary) -> None:
    """`path` may be on any storage."""
    told = {"verdict": "findings" if summary.findings else "well", **asdict(summary)}
    data = msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
    if scheme_of(path) == "file":
        _replace(path.removeprefix("file://"), data)
        return
    folder, _, name = path.rpartition("/")
    Storage.at(folder).put(name, data)


def write_metrics(path: str, summary: AuditSummary) -> None:
    """On this machine."""
    figures = {
        "findings": ("What did not add up.", len(summary.findings)),
        "queues": ("Queues that were compared.", summary.queues),
        "shipments": ("Shipments in the lakes.", summary.shipments),
        "messages": ("Messages in the lakes.", summary.messages),
        "elsewhere_messages": ("Messages of settled shipments that are stored elsewhere.", summary.elsewhere_messages),
        "rows": ("Rows of lakes and ledger that were read and compared.", summary.compared),
        "full": ("Whether everything was looked at.", int(summary.full)),
        "duration_seconds": ("How long the audit took.", round(summary.seconds, 3)),
        "finished_timestamp_seconds": ("When the audit was over.", summary.finished_at / 1000),
    }
    lines = [
        f"# HELP penstock_audit_{name} {help_}\n# TYPE penstock_audit_{name} gauge\npenstock_audit_{name} {value}\n"
        for name, (help_, value) in figures.items()
    ]
    _replace(path, "".join(lines).encode())


def _replace(path: str, data: bytes) -> None:
    # The node exporter reads what ends in .prom only.
    staged = Path(f"{path}.{uuid4().hex}")
    try:
        staged.write_bytes(data)
        os.replace(staged, path)
    except OSError as error:
        with suppress(OSError):
            staged.unlink()
        raise JobFailed(f"{path} cannot be written: {error.strerror}") from None
