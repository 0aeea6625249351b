"""What the client shows, and what it needs: nothing but Python."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys

import pytest

import penstock.client
from penstock.client import AsyncClient, Client, Patience, errors
from penstock.client.arrow import Arrow, AsyncArrow


def test_every_error_is_exported_and_drawn_in_the_tree():
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert kinds <= set(penstock.client.__all__)
    for name in kinds:
        assert name in (errors.__doc__ or "")


def test_every_error_has_a_code_of_its_own():
    codes = [
        kind.code for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__
    ]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", code) for code in codes)
    assert errors.QueueNotFound("queue 'q' does not exist", 404).code == "queue-not-found"


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("no", 400),
        errors.error_of(409, {"error": "another's turn", "expected": 7}, None, {409: errors.ShipmentConflict}),
        errors.error_of(410, {"error": "gone", "how": "lost"}, None, {410: errors.ShipmentEnded}),
        errors.error_of(409, {"error": "held", "holder": "me", "until": 7}, None, {409: errors.LeaseHeld}),
        errors.ServerFailed("oh", 502),
        errors.Unavailable("busy", 7),
        errors.Unreachable("away", sent=True),
        errors.UnexpectedAnswer("hm"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_survives_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_the_public_surface():
    """What a program may use: these modules and names, and nothing that begins with an underscore. Changing this list
    changes what users rely on."""
    assert set(public(Client)) == {
        *("health", "processes", "server", "overview", "history", "workers_of"),
        *("create_queue", "ensure_queue", "update_queue", "delete_queue", "queue", "queues"),
        *("pause_queue", "resume_queue"),
        *("send", "send_many", "send_once", "send_lines", "claim", "ack", "renew", "release", "peek", "purge"),
        *("find_message", "delete_messages", "release_messages", "move_messages", "resend", "latest"),
        *("move", "redrive", "find_move", "cancel_move", "moves", "follow_move"),
        *("delete_matching", "release_matching"),
        *("claim_shipment", "shipment", "shipments", "next_shipment", "read_shipment"),
        *("settle_shipment", "release_shipment", "beat_shipment"),
        *("take_lease", "lease", "drop_lease"),
        *("ledger", "claim_export", "export", "exports", "next_export", "read_export", "settle_export"),
        *("keys", "create_key", "update_key", "rotate_key", "retire_secret", "revoke_key", "actions", "shrink"),
        *("work", "with_patience", "close"),
    }
    assert {name for name, _ in inspect.getmembers(Client, lambda it: isinstance(it, property))} == {"arrow", "url"}
    assert set(public(Arrow)) == {
        *("send", "claim", "ack", "renew", "release", "peek"),
        *("read_shipment", "ledger", "read_export"),
    }


def test_the_verbs_in_arrow_are_named_as_those_in_json():
    assert public(Arrow).keys() == public(AsyncArrow).keys() <= public(Client).keys()


def test_a_client_shows_no_key():
    for kind in (Client, AsyncClient):
        client = kind("http://127.0.0.1:9", "s3cr3t")
        assert repr(client) == f"{kind.__name__}('http://127.0.0.1:9')"


def test_a_client_can_be_pickled():
    for kind in (Client, AsyncClient):
        client = kind("http://127.0.0.1:9", "s3cr3t", 5, patience=Patience(60))
        copy = pickle.loads(pickle.dumps(client))
        assert (copy.url, copy.patience) == (client.url, client.patience)
        assert copy._pool.address.headers_with(None)["Authorization"] == "Bearer s3cr3t"
        assert copy._pool.address.timeout_s == 5


def public(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    sync, asynchronous = public(Client), public(AsyncClient)
    assert sync.keys() == asynchronous.keys()
    for name, signature in sync.items():
        # Only what a worker is given differs: coroutines for callables, and asyncio's events for those of threads.
        assert list(signature.parameters) == list(asynchronous[name].parameters), name
        if name not in ("work", "with_patience"):
            returned = str(asynchronous[name].return_annotation).removeprefix("Async")
            assert signature == asynchronous[name].replace(return_annotation=returned), name
    assert inspect.signature(Client.__init__) == inspect.signature(AsyncClient.__init__)


def test_both_workers_have_the_same_options_and_defaults():
    """Written out twice, since that is what a reader and an editor see."""
    sync, asynchronous = (inspect.signature(kind.work).parameters for kind in (Client, AsyncClient))
    differing = {name for name in sync if sync[name] != asynchronous[name]}
    assert differing == {"handle", "stop"}
    assert sync["stop"].default is asynchronous["stop"].default is None


def test_a_method_can_be_asked_what_it_takes():
    told = inspect.signature(Client().send)
    assert list(told.parameters) == ["queue", "body", "content_type", "attributes", "delay_ms", "group", "dedup_id"]
    assert told.return_annotation == "str"
    assert "The id of the message" in (Client.send.__doc__ or "")
    assert inspect.iscoroutinefunction(AsyncClient.send)


def test_the_client_loads_nothing_of_the_server():
    program = "import sys, penstock.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "penstock.client" in loaded
    for foreign in ("msgspec", "apsw", "uvloop", "httptools", "click", "pyarrow", "penstock.stores", "penstock.server"):
        assert foreign not in loaded
