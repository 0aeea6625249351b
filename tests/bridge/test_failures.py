"""Errors on their way to another process."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.bridge.calls import Failure
from penstock.bridge.failures import Unforeseen, error_of, failure
from penstock.errors import LeaseHeld, PenstockError, ShipmentConflict, ShipmentEnded
from penstock.model import ShipmentRef

REF = ShipmentRef("q", "c", 3)
ARGUMENTS = {
    "UnsupportedMediaType": (),
    "MoveConflict": ("one", "other"),
    "ShipmentNotFound": (REF,),
    "ShipmentConflict": (REF, 5),
    "ShipmentEnded": (REF, "lost"),
    "LeaseHeld": ("drain", "me", 7),
}


def kinds() -> list[type[PenstockError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, PenstockError)]
    assert len(found) > 25
    return found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_an_error_arrives_as_it_left(kind: type[PenstockError]) -> None:
    error = kind(*ARGUMENTS.get(kind.__name__, ("a text",)))
    arrived = error_of(failure(1, error))
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_what_an_error_knows_arrives_with_it() -> None:
    conflict, ended = error_of(failure(1, ShipmentConflict(REF, 5))), error_of(failure(1, ShipmentEnded(REF, "lost")))
    assert isinstance(conflict, ShipmentConflict)
    assert conflict.expected == 5
    assert isinstance(ended, ShipmentEnded)
    assert ended.how == "lost"
    held = error_of(failure(1, LeaseHeld("drain", "me", 7)))
    assert isinstance(held, LeaseHeld)
    assert (held.holder, held.until) == ("me", 7)


def test_an_error_that_was_not_foreseen_tells_its_name_and_no_more() -> None:
    left = failure(1, ValueError("with a secret"))
    assert left == Failure(1, "", "ValueError", {})
    assert isinstance(error_of(left), Unforeseen)
