"""A look before Spark is started: what is not there at the start is more likely a wrong address, name or path than
something that will come. A job finds the same out by itself, but seconds or minutes later and in other words.

It changes nothing, and it passes over what it cannot see: paths of other schemes, and those of a cluster.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from penstock.cli.options import QueueName
from penstock.cli.pipeline.failure import JobEnded
from penstock.cli.program import NO_GOOD_KEY, NOT_ALL_DONE, SERVER_FAILED

if TYPE_CHECKING:
    from penstock.spark.jobs import Run, Server

# Where Spark listens unless an address says otherwise.
_PORTS = {"sc": 15002, "spark": 7077}
_TIMEOUT_S = 10
_BY_THE_USER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
# What a job reads must be there; what it writes must be possible to make.
_READS = dict.fromkeys(("report", "replay", "audit", "dedup", "compact", "retire"), ("lake",))
_WRITES = {"drain": ("lake",), "archive": ("lake",), "dedup": ("to",), "triage": ("to",), "report": ("to",)}


def look(context: click.Context, server: Server | None, run: Run) -> None:
    """Raises JobEnded, or what a client raises."""
    _look_at_spark(run.remote or run.master or "")
    _look_at_paths(context, run)
    # Who says how long to wait wants to wait from the start.
    if server is not None and context.get_parameter_source("patience_ms") not in _BY_THE_USER:
        _look_at_server(context, server)


def _look_at_server(context: click.Context, server: Server) -> None:
    from penstock.client import Client, ClientError, QueueNotFound, Unauthorized, Unreachable

    with Client(server.url, server.api_key, _TIMEOUT_S) as client:
        try:
            client.server()
            for queue in _queues(context):
                client.queue(queue)
        except (Unreachable, QueueNotFound):
            raise
        except Unauthorized as error:
            # A good key may permit what the job does, and not this.
            if error.status == NO_GOOD_KEY:
                raise
        except ClientError:
            return


def _queues(context: click.Context) -> list[str]:
    if context.params.get("create"):
        return []
    named = [param.name for param in context.command.params if isinstance(param.type, QueueName)]
    return [context.params[name] for name in named if name and context.params.get(name)]


def _look_at_spark(place: str) -> None:
    """A Spark Connect server, or one of the masters of a standalone cluster."""
    missing = None
    for host, port in _addresses(place):
        try:
            socket.create_connection((host, port), _TIMEOUT_S).close()
        except OSError as error:
            missing = JobEnded(f"no Spark answers at {host}:{port}: {error.strerror or error}", SERVER_FAILED)
        else:
            return
    if missing is not None:
        raise missing


def _addresses(place: str) -> list[tuple[str, int]]:
    scheme, _, rest = place.partition("://")
    if scheme not in _PORTS:
        return []
    found = (one.rpartition(":") if ":" in one else (one, "", "") for one in re.split("[/;]", rest)[0].split(","))
    return [(host, int(port) if port.isdecimal() else _PORTS[scheme]) for host, _, port in found]


def _look_at_paths(context: click.Context, run: Run) -> None:
    if run.remote is not None or not (run.master or "local").startswith("local"):
        return
    job = context.info_name or ""
    for given in (context.params.get(name) for name in _READS.get(job, ())):
        for path in map(_local, given if isinstance(given, tuple) else (given,)):
            if path is None or path.is_dir():
                continue
            what = "is a file" if path.exists() else "does not exist"
            raise JobEnded(f"there is no lake at {path}: it {what}", NOT_ALL_DONE)
    for name in _WRITES.get(job, ()):
        path = _local(context.params.get(name))
        if path is not None and not context.params.get("dry_run"):
            _must_be_writable(path, job == "report")


def _must_be_writable(path: Path, as_file: bool) -> None:
    if as_file and path.is_dir():
        raise JobEnded(f"{path} is a folder, and a file is to be written")
    if not as_file and path.exists() and not path.is_dir():
        raise JobEnded(f"{path} is a file, and a folder is needed")
    there = next((folder for folder in path.absolute().parents if folder.exists()), Path("/"))
    there = path if path.exists() else there
    if there != path and not there.is_dir():
        raise JobEnded(f"{path} cannot be written: {there} is a file")
    if not os.access(there, os.W_OK):
        raise JobEnded(f"{path} cannot be written: no permission for {there}")


def _local(path: Any) -> Path | None:
    """Where a path is one of this machine; Spark takes `file:/x` as well."""
    if not isinstance(path, str):
        return None
    bare = re.sub(r"^file:(//)?(?=/)", "", path)
    return None if re.match(r"[a-zA-Z][\w+.-]*:", bare) else Path(bare)
