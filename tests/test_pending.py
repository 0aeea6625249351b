"""Results that are still to come."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pending import Pending, chained, gather, rejected


class Told:
    """A listener that keeps what it was told."""

    def __init__(self, pending: Pending) -> None:
        self.values: list[object] = []
        self.errors: list[Exception] = []
        pending.listen(self.values.append, self.errors.append)


def test_a_listener_is_told_in_the_stack_of_the_resolver() -> None:
    pending: Pending[int] = Pending()
    told = Told(pending)
    assert told.values == []
    pending.resolve(1)
    assert (told.values, told.errors) == ([1], [])


def test_who_listens_late_is_told_at_once() -> None:
    pending: Pending[int] = Pending()
    pending.resolve(1)
    assert Told(pending).values == [1]
    error = ValueError()
    rejected: Pending[int] = Pending()
    rejected.reject(error)
    assert Told(rejected).errors == [error]


@pytest.mark.parametrize("value", [None, False, 0, "", [], ValueError("as a value")], ids=repr)
def test_any_value_is_a_value(value: object) -> None:
    early, late = Pending(), Pending()
    told = Told(early)
    early.resolve(value)
    late.resolve(value)
    for listener in (told, Told(late)):
        assert listener.errors == []
        assert len(listener.values) == 1
        assert listener.values[0] is value


@pytest.mark.parametrize("late", [False, True])
def test_map_transforms_a_value(late: bool) -> None:
    pending: Pending[int] = Pending()
    if late:
        pending.resolve(2)
    told = Told(pending.map(lambda value: value + 1).map(str))
    if not late:
        pending.resolve(2)
    assert told.values == ["3"]


@pytest.mark.parametrize("late", [False, True])
def test_an_error_passes_by_transforms_until_somebody_recovers(late: bool) -> None:
    pending: Pending[int] = Pending()
    if late:
        pending.reject(ValueError("lost"))
    told = Told(pending.map(pytest.fail).map(pytest.fail, str).map(str.upper))
    if not late:
        pending.reject(ValueError("lost"))
    assert (told.values, told.errors) == (["LOST"], [])


def test_recover_is_not_asked_about_a_value() -> None:
    pending: Pending[int] = Pending()
    told = Told(pending.map(lambda value: value, pytest.fail))
    pending.resolve(1)
    assert told.values == [1]


def test_what_a_transform_or_a_recovery_raises_is_passed_on() -> None:
    raised = KeyError("raised")

    def fail(_value: object) -> int:
        raise raised

    pending, rejected = Pending(), Pending()
    told = Told(pending.map(fail)), Told(rejected.map(int, fail))
    pending.resolve(1)
    rejected.reject(ValueError())
    assert [listener.errors for listener in told] == [[raised], [raised]]


@given(st.lists(st.sampled_from(["value", "raise", "recover"]), max_size=8), st.booleans(), st.integers(0, 8))
def test_a_chain_is_the_same_whenever_it_is_resolved(steps: list[str], good: bool, resolved_after: int) -> None:
    """Against what the same steps do with plain calls."""
    pending: Pending[int] = Pending()

    def resolve() -> None:
        if good:
            pending.resolve(0)
        else:
            pending.reject(ValueError("0"))

    following: Pending[int] = pending
    expected: int | str = 0 if good else "0"
    for number, step in enumerate(steps, 1):
        if number == resolved_after:
            resolve()
        if step == "raise":
            following = following.map(lambda _value, number=number: _raise(number))
            expected = str(number) if isinstance(expected, int) else expected
        elif step == "recover":
            following = following.map(lambda value: value, lambda error: int(str(error)) + 100)
            expected = int(expected) + 100 if isinstance(expected, str) else expected
        else:
            following = following.map(lambda value: value + 1)
            expected = expected + 1 if isinstance(expected, int) else expected
    told = Told(following)
    if not 0 < resolved_after <= len(steps):
        assert (told.values, told.errors) == ([], [])
        resolve()
    outcome = told.values + [str(error) for error in told.errors]
    assert outcome == [expected]


def _raise(number: int) -> int:
    raise ValueError(str(number))


# Calling off


def test_what_cannot_be_called_off_is_not_called_off() -> None:
    assert Pending().cancel() is False


@pytest.mark.parametrize("possible", [True, False])
def test_cancel_asks_the_one_that_can_call_the_work_off(possible: bool) -> None:
    pending: Pending[int] = Pending()
    pending.on_cancel = lambda: possible
    assert pending.cancel() is possible
    assert pending.map(str).map(str).cancel() is possible


def test_what_is_done_cannot_be_called_off() -> None:
    resolved, rejected = Pending(), Pending()
    for pending in (resolved, rejected):
        pending.on_cancel = pytest.fail
    following = resolved.map(str), rejected.map(str)
    resolved.resolve(1)
    rejected.reject(ValueError())
    assert not any(pending.cancel() for pending in (resolved, rejected, *following))


def test_on_cancel_may_be_set_after_somebody_follows() -> None:
    pending: Pending[int] = Pending()
    following = pending.map(str)
    pending.on_cancel = lambda: True
    assert following.cancel() is True


# Memory


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Marker:
    """Something that can be watched while it dies."""


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_what_is_done_leaves_nothing_for_the_garbage_collector(good: bool, late: bool) -> None:
    """As in a request: a face follows the broker, the edge listens, and both can call it off."""

    class Connection:
        def __init__(self, pending: Pending) -> None:
            self.pending = pending
            self.marker = Marker()
            pending.listen(self.told, self.told)

        def told(self, _result: object) -> None:
            self.pending = None

    with without_collector():
        pending: Pending[object] = Pending()
        value = Marker()
        pending.on_cancel = lambda kept=pending: kept is None
        if late:
            pending.resolve(value) if good else pending.reject(ValueError())
        connection = Connection(pending.map(lambda value: value).map(str, str))
        if not late:
            pending.resolve(value) if good else pending.reject(ValueError())
        watched = [weakref.ref(connection.marker), weakref.ref(connection), weakref.ref(value)]
        del pending, connection, value
        assert [ref() for ref in watched] == [None, None, None]
        assert gc.collect() == 0


def test_an_error_that_is_only_passed_on_leaves_nothing_for_the_garbage_collector() -> None:
    with without_collector():
        marker = Marker()
        pending: Pending[object] = Pending()
        told: list[object] = []
        following = pending.map(lambda _value, kept=marker: kept).map(str)
        following.listen(pytest.fail, lambda error: told.append(type(error)))
        pending.reject(ValueError())
        watched = [weakref.ref(thing) for thing in (marker,)]
        del pending, following, marker
        assert told == [ValueError]
        assert [ref() for ref in watched] == [None]


# Many


def test_gather_keeps_the_order_whatever_the_order_of_arrival() -> None:
    pendings = [Pending(), Pending(), Pending()]
    told = Told(gather(pendings))
    pendings[2].resolve("c")
    pendings[0].resolve("a")
    assert told.values == []
    pendings[1].resolve("b")
    assert told.values == [["a", "b", "c"]]


def test_gather_of_nothing_and_of_what_is_there_is_there_at_once() -> None:
    done: Pending[int] = Pending()
    done.resolve(1)
    assert Told(gather([])).values == [[]]
    assert Told(gather([done])).values == [[1]]


def test_gather_tells_the_first_error_once() -> None:
    pendings = [Pending(), Pending(), Pending()]
    told = Told(gather(pendings))
    first = ValueError("first")
    pendings[1].reject(first)
    pendings[0].reject(ValueError("second"))
    pendings[2].resolve(1)
    assert (told.values, told.errors) == ([], [first])


# One after the other


def test_a_chain_has_the_result_of_what_the_first_value_begins() -> None:
    first, second = Pending(), Pending()
    asked: list[int] = []

    def begin(value: int) -> Pending[str]:
        asked.append(value)
        return second

    told = Told(chained(first, begin))
    first.resolve(1)
    assert (asked, told.values) == ([1], [])
    second.resolve("one")
    assert (told.values, told.errors) == (["one"], [])


def test_a_chain_passes_on_every_error() -> None:
    error = ValueError()

    def fails(_value: object) -> Pending[str]:
        raise error

    done: Pending[int] = Pending()
    done.resolve(1)
    assert Told(chained(rejected(error), fails)).errors == [error]
    assert Told(chained(done, fails)).errors == [error]
    assert Told(chained(done, lambda _value: rejected(error))).errors == [error]


def test_a_chain_that_is_called_off_calls_off_what_is_under_way() -> None:
    first, second = Pending(), Pending()
    second.on_cancel = lambda: True
    whole = chained(first, lambda _value: second)
    assert whole.cancel() is False  # the first cannot be
    first.resolve(1)
    assert whole.cancel() is True


def test_a_chain_that_is_abandoned_begins_nothing_more() -> None:
    first: Pending[int] = Pending()
    whole = chained(first, pytest.fail)
    whole.abandon()
    assert first.is_abandoned
    first.resolve(1)


def test_a_chain_leaves_nothing_for_the_garbage_collector() -> None:
    with without_collector():
        marker = Marker()
        first, second = Pending(), Pending()
        told = Told(chained(first, lambda _value, _kept=marker, then=second: then).map(str))
        first.resolve(1)
        second.resolve(2)
        watched = [weakref.ref(thing) for thing in (marker, told)]
        assert told.values == ["2"]
        del first, second, told, marker
        assert [ref() for ref in watched] == [None, None]
        assert gc.collect() == 0
