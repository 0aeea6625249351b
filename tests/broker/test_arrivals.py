"""Which operations a unit takes, of those that wait."""

from __future__ import annotations

from penstock.broker.arrivals import Arrivals
from penstock.broker.operations import Ack, Operation, Send
from penstock.limits import Limits
from penstock.model import Draft, Receipt


def request(rows: int = 1) -> Send:
    return Send("q", [Draft(b"x")] * rows, None)


def step() -> Operation:
    made = Operation()
    made.is_step = True
    return made


def arrivals(*operations: Operation, **limits: int) -> Arrivals:
    made = Arrivals(Limits(**limits))
    for operation in operations:
        made.add(operation)
    return made


def test_requests_come_in_the_order_of_their_arrival() -> None:
    one, two, three = request(), request(), request()
    waiting = arrivals(one, two)
    waiting.put_first([three])
    assert len(waiting) == 3
    assert waiting.take() == [three, one, two]
    assert waiting.take() == []


def test_a_unit_takes_so_many_operations() -> None:
    requests = [request() for _ in range(5)]
    waiting = arrivals(*requests, unit_operations=2)
    assert [waiting.take() for _ in range(3)] == [requests[:2], requests[2:4], requests[4:]]


def test_a_unit_takes_so_many_rows_and_a_request_with_more_comes_alone() -> None:
    small, large, other, ack = request(4), request(11), request(4), Ack([Receipt("x")] * 6)
    waiting = arrivals(small, large, other, ack, unit_rows=10)
    assert [waiting.take() for _ in range(3)] == [[small], [large], [other, ack]]


def test_steps_do_not_wait_where_there_is_nothing_else() -> None:
    long = step()
    waiting = arrivals(long)
    assert waiting.take() == [long]
    waiting.add(long)
    assert waiting.take() == [long]


def test_every_other_unit_is_for_requests_alone() -> None:
    long = step()
    waiting = arrivals(long)
    taken = []
    for _ in range(4):
        waiting.add(request())
        unit = waiting.take()
        taken.append(long in unit)
        if long in unit:
            assert unit[0] is long, "it must not be left unserved because of others"
            waiting.add(long)
    assert taken == [False, True, False, True]


def test_a_step_that_was_served_goes_behind_the_others_and_one_that_was_not_keeps_its_turn() -> None:
    one, two, three = step(), step(), step()
    waiting = arrivals(one, two, three)
    assert waiting.take() == [one, two, three]
    waiting.add(one)
    waiting.put_first([two, three])
    assert waiting.take() == [two, three, one]


def test_those_that_have_waited_too_long_are_taken_out() -> None:
    late, new, patient = request(), request(), step()
    late.since, new.since, patient.since = 1.0, 3.0, 1.0
    waiting = arrivals(late, new, patient)
    assert waiting.take_late(2.0) == [late, patient]
    assert waiting.take() == [new]
