"""`penstock completion`: the script that makes a shell complete this program's words."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(penstock completion bash)"
    zsh:   eval "$(penstock completion zsh)"
    fish:  penstock completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101
    script = kind(ctx.find_root().command, {}, "penstock", "_PENSTOCK_COMPLETE")
    # The plain form: bash's own would first run a bash to ask for its version.
    click.echo(ShellComplete.source(script))
