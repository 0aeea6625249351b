"""Queues as every API has them, beside the server of an older commit: `--before COMMIT`.

That commit is built, as `make setup` would, in `build/before`, once. Both servers are asked in turns, by the same load,
and the other is the first in every second round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import servers
from bench.foundation import CONNECTIONS, create_queue, cycles, folder, sends
from bench.measure import Effort, Result, absent, at_least, spread
from bench.peers.penstock import Native
from bench.wire import drive

ROUNDS = 6
ROOT = Path(__file__).parent.parent
BATCHING = 4
TARGET = 0.97
SENDS = f"durable sends, {CONNECTIONS} connections ÷ before"
CYCLES = f"send → claim → ack cycles, {CONNECTIONS} connections ÷ before"
BATCH_SENDS = f"native batches of 1,000, {BATCHING} connections: send ÷ before"
BATCH_CLAIMS = f"native batches of 1,000, {BATCHING} connections: claim + ack ÷ before"


class CannotBuild(Exception):
    """What there is of an older commit is not enough to run it."""


def package_of(commit: str) -> Path:
    """The compiled package of a commit."""
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "--verify", "--quiet", f"{commit}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        raise CannotBuild(f"there is no commit {commit} here")
    source = ROOT / "build" / "before" / found.stdout.strip()
    package = source / "build" / "compiled" / "package"
    if not package.exists():
        _build(commit, source)
    return package


def _build(commit: str, source: Path) -> None:
    print(f"building {commit}", file=sys.stderr, flush=True)
    source.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], input=archive, cwd=source, check=True)
    for environment in (".venv", ".venv-build"):
        link = source / environment
        if not link.exists():
            link.symlink_to((ROOT / environment).resolve())
    built = subprocess.run(["devtools/build_package.sh", "compiled"], cwd=source, capture_output=True, text=True)
    if built.returncode:
        raise CannotBuild(f"{commit} cannot be built: {built.stderr.strip()}")


def rates(package: Path | None, seconds: float) -> dict[str, float]:
    with folder() as path, servers.penstock(path, package=package) as (url, process):
        create_queue(url, "q")
        sends(url, CONNECTIONS, 1)  # what a process does only once is not measured
        figures = {CYCLES: cycles(url, seconds), SENDS: sends(url, CONNECTIONS, seconds).per_second}
        dialect = Native("batches")
        for name, work in ((BATCH_SENDS, dialect.send_batches), (BATCH_CLAIMS, dialect.claim_batches)):
            figures[name] = drive(servers.port_of(url), dialect, work, BATCHING, seconds, process.pid).per_second
        return figures


def before(effort: Effort) -> Iterator[Result]:
    names = (SENDS, CYCLES, BATCH_SENDS, BATCH_CLAIMS)
    try:
        older = package_of(effort.before) if effort.before else None
        why = "" if older else "no older commit was named (--before COMMIT)"
    except CannotBuild as error:
        older, why = None, str(error)
    if older is None:
        yield from (absent(name, f"≥ {TARGET}", why) for name in names)
        return
    pairs = []
    for turn in range(effort.rounds(ROUNDS)):
        order = (None, older) if turn % 2 else (older, None)
        measured = {package: rates(package, effort.seconds) for package in order}
        pairs.append((measured[None], measured[older]))
    for name in names:
        ratios = [now[name] / then[name] for now, then in pairs]
        yield at_least(
            name,
            TARGET,
            statistics.median(ratios),
            spread(ratios),
            now=statistics.median(now[name] for now, _ in pairs),
            before=statistics.median(then[name] for _, then in pairs),
        )


MEASURES = {"before": before}
