"""`penstock bench`: how much a running server does, measured from here."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__, limits
from penstock.cli.options import DEFAULT_URL, WholeNumber, cacert_option, connect
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number
from penstock.terminal import printable

if TYPE_CHECKING:
    from penstock.cli.load import Measured, Plan, Target
    from penstock.client import Client

_MODES = ("send", "cycle", "batch")
_QUEUE_RETENTION_MS = 60 * 60 * 1000
# How long after its end a process may take to tell what it has measured.
_GRACE_S = 60
_BUSY = 0.9


@click.command()
@click.option("--mode", "modes", type=click.Choice(_MODES), multiple=True, help="What to measure.  [default: all]")
@click.option("--seconds", type=WholeNumber(1, 3600), default=5, show_default=True, help="How long each mode lasts.")
@click.option("--connections", type=WholeNumber(1, 1000), default=32, show_default=True, help="Requests at a time.")
@click.option("--size", type=WholeNumber(0, limits.BODY_BYTES), default=200, show_default=True,
              help="Bytes of a body.")  # fmt: skip
@click.option("--processes", type=WholeNumber(1, 64), default=1, show_default=True,
              help="Processes that make the load, of which each has so many connections.")  # fmt: skip
@click.option("--url", envvar="PENSTOCK_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
              help="Address of the server.")  # fmt: skip
@click.option("--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True, help="Key for the server.")
@cacert_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(
    modes: tuple[str, ...],
    seconds: int,
    connections: int,
    size: int,
    processes: int,
    url: str,
    api_key: str | None,
    cacert: str | None,
    as_json: bool,
) -> int:
    """Load a running server for a while, and show how much it does.

    send stores messages one by one, cycle sends, claims and acks each, batch sends a hundred at a time. Its queues are
    its own, and are deleted at the end, also after Ctrl-C. Other clients of the server will notice the load.
    """
    from penstock.cli.load import Plan, Target

    measured = []
    signal.signal(signal.SIGTERM, _interrupt)
    with connect(url, api_key, cacert=cacert) as client:
        server = _server(client)
        note(f"this loads {url} for {seconds} s in each mode")
        for mode in modes or _MODES:
            names = [f"penstock-bench-{token_hex(8)}" for _ in range(processes)]
            created: set[str] = set()
            try:
                for name in names:
                    client.create_queue(name, retention_ms=_QUEUE_RETENTION_MS)
                    created.add(name)
                plan = Plan(mode, seconds, connections, size)
                targets = [Target(url, name, api_key, cacert) for name in names]
                measured.append(figures_of(mode, _load(targets, plan)))
            finally:
                _delete(client, names, created)
    about = {
        "url": url,
        "client_version": __version__,
        "server": server,
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "connections": connections * processes,
        "processes": processes,
        "size": size,
        "seconds": seconds,
    }
    if as_json:
        print_json({**about, "modes": measured})
    else:
        _print(about, measured)
    if any(figures["load_cpu"] > _BUSY for figures in measured):
        note("the load was busy all the time and may have been the limit: try --processes 2")
    return NOT_ALL_DONE if any(figures["errors"] for figures in measured) else 0


def _server(client: Client) -> dict[str, Any] | None:
    """What kind of server it is; None where the key does not permit to ask, or the server is too old to tell."""
    from penstock.client import Refused

    try:
        return asdict(client.server())
    except Refused:
        return None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _load(targets: list[Target], plan: Plan) -> list[Measured]:
    from penstock.cli.load import run_load

    context = multiprocessing.get_context("spawn")
    running = []
    try:
        for target in targets:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=run_load, args=(target, plan, theirs), daemon=True)
            process.start()
            theirs.close()
            running.append((process, ours))
        outcomes = []
        for _, ours in running:
            if not ours.poll(plan.seconds + _GRACE_S):
                raise click.ClickException("a process of the load has not ended")
            try:
                outcomes.append(ours.recv())
            except EOFError:
                raise click.ClickException("a process of the load has died") from None
        return outcomes
    finally:
        for process, ours in running:
            process.terminate()
            process.join()
            ours.close()


def _delete(client: Any, names: list[str], created: set[str]) -> None:
    """Another Ctrl-C waits until that is done; what cannot be deleted is named. One of which no answer has told that it
    was created may be there all the same, but if it is not, there is nothing to tell."""
    from penstock.client import ClientError, QueueNotFound

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for name in names:
            try:
                with suppress(QueueNotFound):
                    client.delete_queue(name)
            except ClientError as error:
                if name in created:
                    note(f"the queue {name} could not be deleted: {error}")
    finally:
        signal.signal(signal.SIGINT, before)


def figures_of(mode: str, outcomes: list[Measured]) -> dict[str, Any]:
    latencies = sorted(latency for outcome in outcomes for latency in outcome.latencies_ms)
    seconds = max(outcome.seconds for outcome in outcomes)
    errors: Counter[str] = sum((outcome.errors for outcome in outcomes), Counter())
    return {
        "mode": mode,
        "messages_per_s": sum(outcome.messages for outcome in outcomes) / seconds,
        "rounds_per_s": len(latencies) / seconds,
        **{f"p{part}_ms": _percentile(latencies, part) for part in (50, 95, 99)},
        "errors": dict(errors),
        "load_cpu": max(outcome.cpu_s / outcome.seconds for outcome in outcomes),
    }


def _percentile(ordered: list[float], part: int) -> float | None:
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)] if ordered else None


def _print(about: dict[str, Any], measured: list[dict[str, Any]]) -> None:
    """A table of Markdown, to be pasted."""
    server = about["server"]
    told = "server unknown"
    if server is not None:
        how = "compiled" if server["compiled"] else "plain Python"
        told = f"server {printable(server['version'])} ({how}) on {printable(server['store'])}"
    click.echo(
        f"Penstock at {printable(about['url'])}: {about['connections']} connections, bodies of {number(about['size'])} "
        f"bytes, {about['seconds']} s each; {told}, client {about['client_version']}, "
        f"{about['cpus']} CPUs, {about['machine']}"
    )
    click.echo()
    click.echo("| mode | messages/s | p50 ms | p95 ms | p99 ms | errors | load CPU |")
    click.echo("|---|---:|---:|---:|---:|---:|---:|")
    for figures in measured:
        latencies = " | ".join("" if (ms := figures[f"p{part}_ms"]) is None else f"{ms:.1f}" for part in (50, 95, 99))
        errors = ", ".join(f"{count} × {what}" for what, count in figures["errors"].items()) or "0"
        rate = number(round(figures["messages_per_s"]))
        click.echo(f"| {figures['mode']} | {rate} | {latencies} | {errors} | {figures['load_cpu']:.0%} |")
