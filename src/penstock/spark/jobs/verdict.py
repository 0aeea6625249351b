"""An audit's verdict for programs: as JSON, and as metrics that Prometheus' node exporter reads from a file. Each file
is replaced as a whole."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from penstock.spark.errors import JobFailed
from penstock.spark.storage import Storage, scheme_of

if TYPE_CHECKING:
    from penstock.spark.jobs.audit import AuditSummary


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
