"""A short life of a queue, written down step by step, for faults to strike at any call of it.

Each step is noted in a file of its own before it starts (`try`) and when it has been answered (`done` or `failed`). It
needs nothing but the standard library, so that it starts quickly under a tracer.
"""

from __future__ import annotations

import os
import sys
import time

from penstock.vsqs import Queue


class Books:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def note(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())


def body(name: str) -> bytes:
    """Recognisable as a whole."""
    return name.encode() + b":" + bytes(range(256)) * 20 + b":" + name.encode()


def slow_clock() -> int:
    """Under a tracer making a file takes long. By this clock it never takes so long that its number has passed and
    another is tried: the calls would differ from run to run."""
    return time.time_ns() // 100


def main(path: str, books_path: str) -> None:
    books = Books(books_path)
    # Instances of their own, so that one that has met an error and one that has not take turns.
    with (
        Queue(path, precision="us", clock=slow_clock) as queue,
        Queue(path, precision="us", clock=slow_clock) as other,
    ):
        for name, publisher in {"a": queue, "b": other, "c": queue}.items():
            publish(publisher, books, name)
        receive_and_delete(queue, books)
        try:
            other.receive(0, timeout=0)
        except OSError:
            books.note("failed", "receive")
        # Until that claim has run out: otherwise the calls that follow would differ from run to run.
        time.sleep(0.005)
        receive_and_delete(other, books)
        publish(other, books, "d")


def publish(queue: Queue, books: Books, name: str) -> None:
    books.note("try", "publish", name)
    try:
        queue.publish(body(name))
    except OSError:
        books.note("failed", "publish", name)
    else:
        books.note("done", "publish", name)


def receive_and_delete(queue: Queue, books: Books) -> None:
    try:
        id_, found = queue.receive(60, timeout=0.05)
    except OSError:
        books.note("failed", "receive")
        return
    if id_ is None:
        return
    name = chr(found[0])
    books.note("try", "delete", name)
    try:
        queue.delete(id_)
    except OSError:
        books.note("failed", "delete", name)
    else:
        books.note("done", "delete", name)


if __name__ == "__main__":
    main(*sys.argv[1:])
