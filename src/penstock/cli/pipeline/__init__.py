"""`penstock pipeline`: the jobs that move messages in bulk, by Spark.

Spark is imported when a job runs, and only then: `penstock --help` neither needs it nor waits for it.
"""

from __future__ import annotations

import click

from penstock.cli.pipeline.archive import archive
from penstock.cli.pipeline.audit import audit
from penstock.cli.pipeline.dedup import dedup
from penstock.cli.pipeline.demo import demo
from penstock.cli.pipeline.drain import drain
from penstock.cli.pipeline.load import load
from penstock.cli.pipeline.replay import replay
from penstock.cli.pipeline.report import report
from penstock.cli.pipeline.triage import triage

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Move messages in bulk: files, queues, ledger and lake, by Spark."""


for _command in (load, drain, archive, report, triage, replay, audit, dedup, demo):
    pipeline.add_command(_command)
