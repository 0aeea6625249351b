"""The program around the commands: every failure becomes one line on standard error and an exit code, and a shell can
complete its words."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import ShellComplete, get_completion_class

from penstock.cli.output import note
from penstock.errors import CallerError, InvalidSetting, PenstockError, StoreUnavailable

NOT_ALL_DONE = 1
WRONG_USAGE = 2
REFUSED = 3
SERVER_FAILED = 4
_INTERRUPTED = 130
NO_GOOD_KEY = 401  # as a server puts it


class Guarded(click.Command):
    """A command that is a program of its own. It returns its exit code, or nothing for 0."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(args, prog_name or self.name, complete_var, standalone_mode=False, **extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            # The reader has seen enough. Python flushes once more at its end: into nothing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = NOT_ALL_DONE
        except NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.Abort:
            code = _INTERRUPTED
        except (click.ClickException, PenstockError, OSError) as error:
            note(line_of(error))
            code = code_of(error)
        sys.exit(code or 0)


class Program(Guarded, click.Group):
    """A program of many commands."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """In the order of a message's life, not of the alphabet."""
        return list(self.commands)


def line_of(error: Exception) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} (see '{error.ctx.command_path} --help')"
    if isinstance(error, click.ClickException):
        return error.format_message()
    # A store that this very program could not open stays as it is until the operator acts; a server that says when to
    # come back means it.
    if getattr(error, "status", None) == NO_GOOD_KEY:
        return f"{error}; it is taken from --api-key or PENSTOCK_API_KEY"
    retry_after_s = None if isinstance(error, StoreUnavailable) else getattr(error, "retry_after_s", None)
    return str(error) if retry_after_s is None else f"{error}; try again in {retry_after_s} s"


def code_of(error: Exception) -> int:
    """The one table from an error to an exit code."""
    from penstock.client import Refused

    match error:
        case click.ClickException():
            return error.exit_code
        case InvalidSetting():
            return WRONG_USAGE
        case Refused():
            return REFUSED
        case CallerError():
            return REFUSED
        case PenstockError():
            return SERVER_FAILED
        case _:
            return NOT_ALL_DONE


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
