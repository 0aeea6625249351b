"""How many files the process may open: a connection is one, and many systems grant 1,024 unless more are asked for.

Without a place for another one, new clients would hang unanswered instead of being told 503.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace

from penstock.edge.connections import most_refused
from penstock.errors import InvalidSetting
from penstock.server.config import Config

log = logging.getLogger(__name__)

# For the store with its folders or connections, the logs, the event loop and what the interpreter loads.
_BESIDES = 64


def fit_open_files(config: Config) -> Config:
    """Ask for as many as `max_connections` needs, should all of them come to one process. Where the system gives fewer,
    so many connections are the limit of each process: see `most_connections`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _files(config.max_connections)
    if _holds(soft, wanted):
        return config
    most = wanted if _holds(hard, wanted) else hard
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most == wanted:
        return config
    connections = _connections(most)
    if connections < 1:
        raise InvalidSetting(f"the process may open {most} files (ulimit -n), too few for a server")
    if connections * config.workers >= config.max_connections:
        log.warning(
            "max_connections is %d, but a process may open %d files (ulimit -n): each has at most %d of them",
            *(config.max_connections, most, connections),
        )
        return config
    connections *= config.workers
    log.warning(
        "max_connections is %d, but the process may open %d files (ulimit -n): at most %d connections are open at once",
        *(config.max_connections, most, connections),
    )
    return replace(config, max_connections=connections)


def most_connections() -> int:
    """How many connections this process has files for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, _connections(soft)) if soft != resource.RLIM_INFINITY else 1 << 30


def _holds(limit: int, count: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= count


def _files(connections: int) -> int:
    """With those that the edge opens to refuse further clients."""
    return most_refused(connections) + _BESIDES


def _connections(files: int) -> int:
    """The most for which `_files` is enough."""
    return (files - 8 - _BESIDES) * 8 // 9
