"""The errors of Spark's side, for programs and for readers."""

from __future__ import annotations

import pickle
import re
from types import ModuleType

from penstock.client import SendConflict, ShipmentEnded
from penstock.client import errors as client_errors
from penstock.spark import errors


def kinds_of(module: ModuleType) -> list[type]:
    return [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]


def test_every_error_is_drawn_in_the_tree_and_has_a_code_of_its_own() -> None:
    """One that the client does not use either: a job meets both."""
    kinds = kinds_of(errors)
    assert len(kinds) == 6
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind.code == re.sub("(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
    assert {kind.code for kind in kinds}.isdisjoint(kind.code for kind in kinds_of(client_errors))


def test_what_a_server_says_is_an_error_of_the_client_too() -> None:
    gone = errors.ShipmentGone("it was lost", "lost")
    assert isinstance(gone, ShipmentEnded)
    assert issubclass(errors.WriteConflict, SendConflict)
    copy = pickle.loads(pickle.dumps(gone))
    assert (type(copy), str(copy), vars(copy)) == (type(gone), str(gone), vars(gone))
