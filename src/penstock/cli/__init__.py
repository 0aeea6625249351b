"""The command `penstock`: it runs a server, and talks to one over HTTP.

Commands import what they need when they run, so that `penstock --help` and completion answer at once.
"""

from __future__ import annotations

import click

from penstock import __version__
from penstock.cli.actions import actions
from penstock.cli.backup import backup
from penstock.cli.bench import bench
from penstock.cli.check import check
from penstock.cli.claim import claim
from penstock.cli.export import export, import_
from penstock.cli.key import key
from penstock.cli.ledger import ledger
from penstock.cli.messages import ack, peek, purge, release, renew
from penstock.cli.migrate import migrate_store
from penstock.cli.move import delete_matching, move, moves, redrive, release_matching
from penstock.cli.options import explain_durations
from penstock.cli.pipeline import pipeline
from penstock.cli.program import Program, completion
from penstock.cli.queue import queue
from penstock.cli.send import send
from penstock.cli.serve import config, serve
from penstock.cli.shipment import shipment
from penstock.cli.shrink import shrink
from penstock.cli.top import top
from penstock.cli.vsqs import vsqs
from penstock.compiled import is_compiled

__all__ = ["main"]

_EPILOG = """\b
Exit codes:
  0  done
  1  nothing found, or not everything was done
  2  wrong usage or settings, or the port is taken
  3  the server refused the request, or there is no such queue
  4  the server cannot be reached or failed, or its store cannot be opened
"""


@click.group(cls=Program, name="penstock", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"%(prog)s %(version)s ({'compiled' if is_compiled() else 'plain Python'})")
def main() -> None:
    """A durable message queue: run a server, or talk to one."""


for _command in (
    serve,
    config,
    queue,
    send,
    claim,
    ack,
    renew,
    release,
    peek,
    purge,
    move,
    redrive,
    delete_matching,
    release_matching,
    moves,
    export,
    import_,
    shipment,
    ledger,
    key,
    actions,
    top,
    bench,
    pipeline,
    migrate_store,
    backup,
    check,
    shrink,
    vsqs,
    completion,
):
    main.add_command(_command)
explain_durations(main)
