"""Whether steps may be larger, because no one waits for them."""

from __future__ import annotations

import pytest

from penstock.broker.chores import Sweep
from penstock.broker.commit import Calm
from penstock.broker.operations import Operation, Send, Work
from penstock.broker.shipments import ReadShipment
from penstock.limits import Limits
from penstock.model import Draft, ShipmentRef

LIMITS = Limits(shipment_step_rows=100, page_step_rows=10, step_rows=7, claim_rows=5_000)


class Watch:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


def bulk() -> Operation:
    return Work(ReadShipment(ShipmentRef("q", "c", 1), 0, 10))


def request() -> Operation:
    return Send("q", [Draft(b"x")], None)


def rows(calm: Calm, *operations: Operation) -> tuple[int, int, int]:
    limits = calm.pace(list(operations)).limits("ReadShipment")
    return limits.shipment_rows, limits.page_step_rows, limits.step_rows


def test_bulk_work_alone_takes_larger_steps(watch: Watch) -> None:
    assert rows(Calm(LIMITS, watch), bulk(), bulk()) == (800, 80, 7)


def test_beside_a_request_steps_are_small(watch: Watch) -> None:
    assert rows(Calm(LIMITS, watch), bulk(), request()) == (100, 10, 7)


def test_for_a_while_after_a_request_steps_stay_small(watch: Watch) -> None:
    calm = Calm(LIMITS, watch)
    calm.pace([request()])
    watch.now_s += 0.2
    assert rows(calm, bulk()) == (100, 10, 7)
    watch.now_s += 0.1
    assert rows(calm, bulk()) == (800, 80, 7)


def test_a_chore_disturbs_nobody(watch: Watch) -> None:
    calm = Calm(LIMITS, watch)
    chore = Work(Sweep(0, 0), patient=True)
    assert rows(calm, chore) == (100, 10, 7)
    assert rows(calm, bulk(), chore) == (800, 80, 7)
