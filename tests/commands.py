"""Commands in files that something else runs: whether this program understands them."""

from __future__ import annotations

import shlex

import click

from penstock.cli import main


def understood(line: str) -> click.Context:
    """The command and its options, parsed as they would be; it is not run. Raises click's UsageError."""
    words = shlex.split(line)
    command: click.Command = main
    context = click.Context(main, info_name=words.pop(0))
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        if not isinstance(found, click.Group):
            return found.make_context(name, words, parent=context)
        command, context = found, click.Context(found, parent=context, info_name=name)
    raise AssertionError(line)
