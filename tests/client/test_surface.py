"""What the client shows, and what it needs: nothing but Python."""

from __future__ import annotations

import inspect
import subprocess
import sys

import penstock.client
from penstock.client import AsyncClient, Client, errors


def test_every_error_is_exported_and_drawn_in_the_tree():
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert kinds <= set(penstock.client.__all__)
    for name in kinds:
        assert name in (errors.__doc__ or "")


def public(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    sync, asynchronous = public(Client), public(AsyncClient)
    assert sync.keys() == asynchronous.keys()
    for name, signature in sync.items():
        # Only what a worker is given differs: coroutines for callables, and asyncio's events for those of threads.
        assert list(signature.parameters) == list(asynchronous[name].parameters), name
        if name not in ("work", "queues", "follow_move"):
            assert signature == asynchronous[name], name
    assert inspect.signature(Client.__init__) == inspect.signature(AsyncClient.__init__)


def test_a_method_can_be_asked_what_it_takes():
    told = inspect.signature(Client().send)
    assert list(told.parameters) == ["queue", "body", "content_type", "attributes", "delay_ms"]
    assert told.return_annotation == "str"
    assert "The id of the message" in (Client.send.__doc__ or "")
    assert inspect.iscoroutinefunction(AsyncClient.send)


def test_the_client_loads_nothing_of_the_server():
    program = "import sys, penstock.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "penstock.client" in loaded
    for foreign in ("msgspec", "apsw", "uvloop", "httptools", "click", "penstock.stores", "penstock.server"):
        assert foreign not in loaded
