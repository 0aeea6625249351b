"""Something to look at, shown again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from penstock.cli.output import note, on_terminal


def watch(show: Callable[[], None], every_ms: int, as_json: bool) -> None:
    """Until Ctrl-C. A server that goes away meanwhile is waited for."""
    from penstock.client import Unavailable, Unreachable

    reached = False
    while True:
        if on_terminal():
            click.clear()
        try:
            show()
            reached = True
        except (Unavailable, Unreachable) as error:
            if not reached:
                raise
            note(str(error))
        if not (on_terminal() or as_json):
            click.echo()
        if sys.stdout is not None:
            sys.stdout.flush()
        time.sleep(every_ms / 1000)
