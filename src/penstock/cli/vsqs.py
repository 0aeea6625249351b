"""`penstock vsqs`: a directory queue, opened without a server."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Duration
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE, REFUSED
from penstock.cli.send import read_body

if TYPE_CHECKING:
    from penstock.vsqs import Queue

_path = click.argument("path", type=click.Path(file_okay=False))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class NoQueue(click.ClickException):
    """The code of an unknown queue in every command."""

    exit_code = REFUSED


class Mode(click.ParamType[int]):
    name = "octal"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from penstock.vsqs import arguments

        if isinstance(value, int):
            return value
        try:
            return arguments.mode("--mode", int(str(value), 8))
        except ValueError:
            self.fail(f"{value!r} is not a mode such as 600 or 660 that lets the owner read and write.", param, ctx)


@contextmanager
def _queue(path: str, *, make: bool = False, mode: int = 0o600) -> Iterator[Queue]:
    from penstock.vsqs import Queue

    if not make and not os.path.isdir(path):
        # Opening would make it: a queue that was mistyped would look like one that is empty.
        raise NoQueue(f"there is no queue at {path}")
    with Queue(path, mode=mode) as queue:
        yield queue


@click.group()
def vsqs() -> None:
    """Use a directory as a queue, without a server.

    PATH is the directory. Any number of programs may use it at the same time.
    """


@vsqs.command()
@_path
@click.argument("body", required=False)
@click.option("--file", metavar="PATH", help="Publish what this file holds.")
@click.option(
    "--mode", type=Mode(), default="600", show_default=True, metavar="OCTAL", help="Who may read it, as for chmod."
)
@_json
def publish(path: str, body: str | None, file: str | None, mode: int, as_json: bool) -> None:
    """Publish one message and print its id.

    BODY is the text itself. With '-', or without any, the body is read from standard input. The directory is made
    if it does not exist.
    """
    data = read_body(body, file)
    with _queue(path, make=True, mode=mode) as queue:
        id = queue.publish(data)
    if as_json:
        print_json({"id": id})
    else:
        click.echo(id)


@vsqs.command()
@_path
@click.option(
    "--visibility", "visibility_ms", type=Duration(), default="10s", show_default=True, help="How long to hold it."
)
@click.option("--wait", "wait_ms", type=Duration(), default="0s", show_default=True, help="How long to wait for one.")
@_json
def receive(path: str, visibility_ms: int, wait_ms: int, as_json: bool) -> int | None:
    """Claim the oldest message: its body to standard output, its id to standard error.

    No other consumer gets it until the time is over. Finish it with 'penstock vsqs delete PATH ID'.
    """
    with _queue(path) as queue:
        id, body = queue.receive(visibility_ms / 1000, wait_ms / 1000)
    if id is None or body is None:
        note(f"no message is ready in {path}")
        return NOT_ALL_DONE
    if as_json:
        print_json({"id": id, **_body_as_json(body)})
        return None
    # First the id: where the body cannot be written, the message can still be deleted.
    click.echo(id, err=True)
    click.echo(body, nl=False)
    return None


def _body_as_json(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


@vsqs.command()
@_path
@click.argument("id")
@_json
def delete(path: str, id: str, as_json: bool) -> int | None:
    """Delete a message, whichever claim holds it."""
    with _queue(path) as queue:
        try:
            found = queue.delete(id)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    if as_json:
        print_json({"deleted": found})
    elif found:
        click.echo(f"deleted {id}")
    if not found:
        note(f"there is no message {id} in {path}")
        return NOT_ALL_DONE
    return None


@vsqs.command()
@_path
@_json
def size(path: str, as_json: bool) -> None:
    """Print how many messages there are, those being worked on included."""
    with _queue(path) as queue:
        count = queue.size()
    if as_json:
        print_json({"size": count})
    else:
        click.echo(str(count))
