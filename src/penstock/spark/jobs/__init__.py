"""The jobs of the pipeline: each one function, run from Python or by `penstock pipeline`.

    drain(Server("http://queues:8080"), "orders", "s3a://company/lake", run=Run(spark))

They reshape messages only as DataFrames, and reach a server only over HTTP. Each may be run again at any time, after
any failure, without doubling or losing a message.
"""

from __future__ import annotations

from penstock.spark.errors import JobFailed
from penstock.spark.jobs.archive import ArchiveSummary, archive
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.compact import CompactSummary, compact
from penstock.spark.jobs.dedup import DedupSummary, dedup
from penstock.spark.jobs.drain import DrainSummary, drain
from penstock.spark.jobs.load import LoadSummary, Shape, load
from penstock.spark.jobs.replay import ReplaySummary, Source, replay
from penstock.spark.jobs.retire import RetireSummary, retire
from penstock.spark.jobs.run import Run, Summary
from penstock.spark.jobs.triage import TriageSummary, triage
from penstock.spark.jobs.verdict import AuditSummary
from penstock.spark.landing import Body
from penstock.spark.server import Server
from penstock.terminal import Bar, Lines, Quiet

__all__ = [
    "ArchiveSummary", "AuditSummary", "Bar", "Body", "CompactSummary", "DedupSummary", "DrainSummary", "JobFailed",
    "Lines", "LoadSummary", "Quiet", "ReplaySummary", "RetireSummary", "Run", "Server", "Shape", "Source", "Summary",
    "TriageSummary", "archive", "audit", "compact", "dedup", "drain", "load", "replay", "retire", "triage",
]  # fmt: skip
