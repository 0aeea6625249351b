"""`penstock pipeline`: the jobs that move messages in bulk, by Spark."""

from __future__ import annotations

import click

from penstock.cli.pipeline.commands import (
    archive,
    audit,
    compact,
    dedup,
    demo,
    drain,
    load,
    prepare,
    replay,
    report,
    retire,
    triage,
)

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Move messages in bulk: files, queues, ledger and lake, by Spark."""


for _command in (load, drain, archive, report, triage, replay, audit, dedup, compact, retire, demo, prepare):
    pipeline.add_command(_command)
