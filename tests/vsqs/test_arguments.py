"""What callers may pass, what is exported, and what the package needs."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.vsqs
from penstock.vsqs import Queue, QueueClosed, QueueError, QueueFull

SOURCE = Path(penstock.vsqs.__file__).parents[2]


@pytest.mark.parametrize("timeout", ["1", b"1", [1], True, 1j])
def test_a_timeout_is_a_number(queue, timeout):
    for call in (
        lambda: queue.receive(timeout, 0),
        lambda: queue.receive(1, timeout),
        lambda: queue.publish(b"", timeout),
    ):
        with pytest.raises(TypeError, match="timeout is a number of seconds"):
            call()


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, math.inf, -math.inf, 1e300])
def test_a_timeout_is_sane(queue, timeout):
    for call in (
        lambda: queue.receive(timeout, 0),
        lambda: queue.receive(1, timeout),
        lambda: queue.publish(b"", timeout),
    ):
        with pytest.raises(ValueError, match="timeout is between 0 and"):
            call()


def test_a_claim_needs_an_end(queue):
    with pytest.raises(TypeError):
        queue.receive(None)


@pytest.mark.parametrize("payload", ["text", None, 5, [1, 2], object()])
def test_a_payload_is_bytes(queue, payload):
    with pytest.raises(TypeError, match="a payload is bytes"):
        queue.publish(payload)
    assert queue.size() == 0


@pytest.mark.parametrize(("options", "error"), [
    ({"capacity": 0}, ValueError), ({"capacity": -1}, ValueError), ({"capacity": 1.5}, TypeError),
    ({"capacity": True}, TypeError), ({"precision": "s"}, ValueError), ({"sweep_after": -1}, ValueError),
    ({"mode": 0o400}, ValueError), ({"mode": 0o1600}, ValueError), ({"mode": "600"}, TypeError),
    ({"sweep_after": "1h"}, TypeError),
])  # fmt: skip
def test_settings_are_checked_before_anything_is_made(path, options, error):
    with pytest.raises(error):
        Queue(path, **options)
    assert not path.exists()


def test_the_tree_of_errors():
    assert issubclass(QueueFull, QueueError)
    assert issubclass(QueueClosed, QueueError)
    assert not issubclass(QueueError, OSError)
    assert penstock.vsqs.__all__ == ["Queue", "QueueClosed", "QueueError", "QueueFull"]


def test_it_is_imported_with_the_standard_library_alone():
    program = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import penstock.vsqs; "
        "print(*(name for name in sys.modules if name.startswith('penstock')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    ).stdout
    others = {name for name in loaded.split() if not name.startswith("penstock.vsqs")}
    assert others == {"penstock", "penstock.inotify"}
