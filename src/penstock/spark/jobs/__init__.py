"""The jobs of the pipeline: each one function, run from Python or by `penstock pipeline`.

They reshape messages only as DataFrames, and reach a server only through `penstock.spark.wire`. Each may be run
again at any time, after any failure, without doubling or losing a message.
"""

from __future__ import annotations

from penstock.spark.jobs.archive import ArchiveSummary, archive
from penstock.spark.jobs.audit import AuditSummary, audit
from penstock.spark.jobs.dedup import DedupSummary, dedup
from penstock.spark.jobs.drain import DrainSummary, drain
from penstock.spark.jobs.load import LoadSummary, load
from penstock.spark.jobs.replay import ReplaySummary, replay
from penstock.spark.jobs.running import JobFailed
from penstock.spark.jobs.triage import TriageSummary, triage

__all__ = [
    "ArchiveSummary", "AuditSummary", "DedupSummary", "DrainSummary", "JobFailed", "LoadSummary", "ReplaySummary",
    "TriageSummary", "archive", "audit", "dedup", "drain", "load", "replay", "triage",
]  # fmt: skip
