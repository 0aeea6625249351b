"""The programs `mq`, `mq-mover` and `mq-reaper`: MQ-Core's daemons, each alone against one root folder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock import __version__
from penstock.cli.output import note
from penstock.cli.program import Guarded
from penstock.cli.serve import load_settings, setting_options

# What makes `mq` what it is, and so is not an option.
_FIXED = ("store", "faces", "mqcore_daemons")

root_option = click.option(
    "--root",
    envvar="PENSTOCK_MQ_ROOT",
    required=True,
    show_envvar=True,
    metavar="PATH",
    help="The folder of the queues.",
)
_CONTEXT = {"help_option_names": ["-h", "--help"]}


def _log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)(
        command
    )
    levels = click.Choice(["debug", "info", "warning", "error"])
    return click.option("--log-level", type=levels, default="info", show_default=True)(command)


@click.command("mq", cls=Guarded, context_settings=_CONTEXT)
@root_option
@click.option(
    "--peers", type=int, metavar="N", help="Other mq programs on the same folder; the same as --mqcore-peers."
)
@functools.partial(setting_options, without=_FIXED)
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq(root: str, peers: int | None, path: str | None, **flags: object) -> None:
    """Serve MQ-Core over HTTP from a folder. mq-mover and mq-reaper look after the rest.

    All settings of 'penstock serve' hold here too, but for the store, the APIs and the daemons.
    """
    flags |= {"store": f"mqcore:///{root}", "faces": "mqcore", "mqcore_daemons": False}
    if peers is not None:
        flags["mqcore_peers"] = peers
    loaded = load_settings(path, flags)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    from penstock.server.run import run

    run(loaded.config, lambda: load_settings(path, flags).config)


def _existing(root: str) -> Path:
    """Only `mq` makes a root: a daemon would look after a mistyped one forever, and find nothing to do."""
    path = Path(root).absolute()
    if not path.is_dir():
        raise click.UsageError(f"there is no folder {path}: --root is the folder that mq serves, which makes it")
    return path


@click.command("mq-mover", cls=Guarded, context_settings=_CONTEXT)
@root_option
@click.option("--grace", type=click.FloatRange(0), default=5.0, show_default=True, metavar="SECONDS",
              help="How long a message in 'new' is left to its writer.")  # fmt: skip
@_log_options
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_mover(root: str, grace: float, log_level: str, log_format: str) -> None:
    """Deliver what is left in 'new', and redeliver from 'delay' when it is due."""
    from penstock.server import logs
    from penstock.stores.mqcore.daemons import MoverTask, run
    from penstock.stores.mqcore.mover import Mover

    logs.configure(log_level, log_format)
    run(_existing(root), MoverTask(Mover(grace)))


@click.command("mq-reaper", cls=Guarded, context_settings=_CONTEXT)
@root_option
@_log_options
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_reaper(root: str, log_level: str, log_format: str) -> None:
    """Destroy what is in 'remove'."""
    from penstock.server import logs
    from penstock.stores.mqcore.daemons import ReaperTask, run
    from penstock.stores.mqcore.reaper import Reaper

    logs.configure(log_level, log_format)
    run(_existing(root), ReaperTask(Reaper()))
