"""What the client shows, and what it needs: nothing but Python."""

from __future__ import annotations

import subprocess
import sys

import penstock.client
from penstock.client import errors


def test_every_error_is_exported_and_drawn_in_the_tree():
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert kinds <= set(penstock.client.__all__)
    for name in kinds:
        assert name in (errors.__doc__ or "")


def test_the_client_loads_nothing_of_the_server():
    program = "import sys, penstock.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "penstock.client" in loaded
    for foreign in ("msgspec", "apsw", "uvloop", "httptools", "click", "penstock.stores", "penstock.server"):
        assert foreign not in loaded
