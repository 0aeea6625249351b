"""VSQS: a durable publish beside the bare system calls, and what a backlog costs a consumer."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.foundation import folder
from bench.measure import Effort, Result, at_least
from penstock.vsqs import Queue

BODY = b"x" * 200
DEEP = 100_000
SHALLOW = 1_000
BACKLOG = 10_000
ROUNDS = 5
HOLD_S = 600
# So that a queue of a thousand never runs dry within a slice.
MOST_STEPS = SHALLOW // 2


def vsqs(effort: Effort) -> Iterator[Result]:
    """Whatever is compared is measured in turn, in slices, so that noise falls on both alike."""
    slice_s = max(0.2, effort.seconds / ROUNDS)
    yield publishing(slice_s)
    yield by_depth(slice_s, effort.messages(DEEP))
    yield against_listing(slice_s)


def rate(step: Callable[[], object], seconds: float) -> float:
    count, spent = 0, 0.0
    started = time.perf_counter()
    while spent < seconds and count < MOST_STEPS:
        step()
        count += 1
        spent = time.perf_counter() - started
    return count / spent


def in_turn(
    first: Callable[[], object],
    second: Callable[[], object],
    slice_s: float,
    between: Callable[[], object] = lambda: None,
) -> tuple[float, float, float]:
    """The median of the ratios, each of two neighbouring slices; and the median rates."""
    measured = []
    for _ in range(ROUNDS):
        between()
        measured.append((rate(first, slice_s), rate(second, slice_s)))
    ratio = statistics.median(one / other for one, other in measured)
    return ratio, statistics.median(one for one, _ in measured), statistics.median(other for _, other in measured)


def publishing(slice_s: float) -> Result:
    """In microseconds, where neither side ever waits for the clock to show another number."""
    with folder() as ours, folder() as theirs, Queue(ours, precision="us") as queue:
        directory = os.open(theirs, os.O_RDONLY)
        ratio, published, bare = in_turn(
            lambda: queue.publish(BODY), lambda: bare_publish(directory, time.time_ns() // 1_000), slice_s
        )
        os.close(directory)
        with folder() as path, Queue(path) as slow:
            by_the_millisecond = rate(lambda: slow.publish(BODY), slice_s)
    return at_least(
        "VSQS publish ÷ open, write, fsync, rename, fsync of the directory",
        0.7,
        ratio,
        "numbers in microseconds; the bare calls check nothing",
        published=published,
        bare=bare,
        published_by_the_millisecond=by_the_millisecond,
    )


def bare_publish(directory: int, number: int) -> None:
    draft = f"{number}.new"
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=directory)
    os.write(descriptor, BODY)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(draft, str(number), src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def fill(path: Path, depth: int) -> None:
    """Straight into the directory: how the messages came there is not what is measured."""
    count = depth - len(os.listdir(path))
    first = time.time_ns() // 1_000
    directory = os.open(path, os.O_RDONLY)
    for number in range(first, first + count):
        descriptor = os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=directory)
        os.write(descriptor, BODY)
        os.close(descriptor)
    os.fsync(directory)
    os.close(directory)
    os.sync()


def cycle(queue: Queue) -> None:
    found, _ = queue.receive(HOLD_S, timeout=0)
    assert found is not None
    assert queue.delete(found)


def by_depth(slice_s: float, depth: int) -> Result:
    with folder() as deep_path, folder() as shallow_path:

        def refill() -> None:
            fill(deep_path, depth)
            fill(shallow_path, SHALLOW)

        refill()
        with Queue(deep_path) as deep, Queue(shallow_path) as shallow:
            started = time.perf_counter()
            cycle(deep)
            first_ms = (time.perf_counter() - started) * 1000
            cycle(shallow)
            ratio, deep_rate, shallow_rate = in_turn(
                lambda: cycle(deep), lambda: cycle(shallow), slice_s, between=refill
            )
    return at_least(
        f"VSQS receive + delete with {depth:,} waiting ÷ {SHALLOW:,}",
        0.7,
        ratio,
        "after the one listing that opening costs",
        deep=deep_rate,
        shallow=shallow_rate,
        first_receive_of_the_deep_ms=first_ms,
    )


def against_listing(slice_s: float) -> Result:
    with folder() as ours, folder() as theirs:
        fill(ours, BACKLOG)
        fill(theirs, BACKLOG)
        directory = os.open(theirs, os.O_RDONLY)
        with Queue(ours) as queue:
            cycle(queue)
            ratio, cached, listed = in_turn(lambda: cycle(queue), lambda: list_and_cycle(theirs, directory), slice_s)
        os.close(directory)
    return at_least(
        f"VSQS receive + delete, backlog of {BACKLOG:,} ÷ a loop that lists for every receive",
        20,
        ratio,
        "both sync the directory after a delete",
        cached=cached,
        listed=listed,
    )


def list_and_cycle(path: Path, directory: int) -> None:
    """The document's algorithm as it is written: one listing to receive, another to delete."""
    now = time.time_ns() // 1_000_000
    names = sorted((name.partition(".") for name in os.listdir(path)), key=lambda name: int(name[0]))
    assert not [name for name in names if name[2].isdecimal() and int(name[2]) < now]
    oldest = next(name[0] for name in names if not name[1])
    claimed = f"{oldest}.{now + HOLD_S * 1000}"
    os.rename(oldest, claimed, src_dir_fd=directory, dst_dir_fd=directory)
    (path / claimed).read_bytes()
    for name in os.listdir(path):
        if name.partition(".")[0] == oldest:
            os.unlink(name, dir_fd=directory)
    os.fsync(directory)


MEASURES = {"vsqs": vsqs}
