"""Leases: one holder at a time for each name in a queue."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import LeaseHeld, QueueNotFound
from penstock.model import Lease
from penstock.stores import Store
from tests.stores.conftest import Verbs, kind_has_tables

pytestmark = pytest.mark.needs("leases")


@pytest.fixture
def leases(verbs: Verbs) -> Verbs:
    """There is a queue "q"."""
    verbs.create()
    return verbs


class TestTaking:
    def test_a_free_one(self, leases: Verbs) -> None:
        lease = Lease("q", "k", "me", leases.now, leases.now + 60_000)
        assert leases.leases.take("me") == lease
        assert leases.leases.find() == lease

    def test_is_refused_while_another_has_it(self, leases: Verbs) -> None:
        lease = leases.leases.take("me")
        leases.now = lease.until - 1
        with pytest.raises(LeaseHeld, match="the lease 'k' is held by 'me'") as refused:
            leases.leases.take("you")
        assert (refused.value.holder, refused.value.until) == ("me", lease.until)
        assert leases.leases.find() == lease

    def test_again_prolongs_it(self, leases: Verbs) -> None:
        first = leases.leases.take("me")
        leases.now += 50_000
        assert leases.leases.take("me").until == leases.now + 60_000
        assert leases.leases.find() == Lease("q", "k", "me", first.taken_at, leases.now + 60_000)

    def test_again_may_shorten_it(self, leases: Verbs) -> None:
        leases.leases.take("me")
        assert leases.leases.take("me", hold_ms=1_000).until == leases.now + 1_000

    def test_one_that_is_over(self, leases: Verbs) -> None:
        leases.leases.take("me")
        leases.now += 60_000
        assert leases.leases.find() is None
        assert leases.leases.take("you") == Lease("q", "k", "you", leases.now, leases.now + 60_000)
        with pytest.raises(LeaseHeld):
            leases.leases.take("me")

    @pytest.mark.parametrize("sweeps", [False, True])
    def test_ones_own_that_is_over_is_a_new_one(self, leases: Verbs, sweeps: bool) -> None:
        leases.leases.take("me")
        leases.now += 60_000
        if sweeps:
            assert leases.sweep() == 1
        assert leases.leases.take("me").taken_at == leases.now

    def test_holders_differ_by_the_spaces_at_their_ends(self, leases: Verbs) -> None:
        leases.leases.take("me ")
        for other in ("me", "Me ", "me  "):
            with pytest.raises(LeaseHeld):
                leases.leases.take(other)
            assert leases.leases.drop(other) is False
        assert leases.leases.find().holder == "me "

    def test_holders_of_any_letters(self, leases: Verbs) -> None:
        holder = "größe 🚰 " * 25
        assert len(holder) == 200
        leases.leases.take(holder)
        assert leases.leases.find().holder == holder
        assert leases.leases.take(holder).taken_at == leases.now

    def test_names_and_queues_are_apart(self, leases: Verbs) -> None:
        leases.create("other")
        leases.leases.take("me")
        assert leases.leases.take("you", name="K").name == "K"
        assert leases.leases.take("you", queue="other").queue == "other"
        assert leases.leases.find().holder == "me"

    def test_a_lost_unit_has_taken_nothing(self, leases: Verbs, store: Store) -> None:
        with suppress(ZeroDivisionError), store.unit() as unit:
            unit.leases.take("q", "k", "me", leases.now, 60_000)
            raise ZeroDivisionError
        assert leases.leases.find() is None
        assert leases.leases.take("you").holder == "you"

    def test_a_refusal_leaves_the_unit_as_it_is(self, leases: Verbs, store: Store) -> None:
        leases.leases.take("me")
        with store.unit() as unit:
            with pytest.raises(LeaseHeld):
                unit.leases.take("q", "k", "you", leases.now, 60_000)
            unit.leases.take("q", "l", "you", leases.now, 60_000)
        assert leases.leases.find(name="l").holder == "you"


class TestDropping:
    def test_frees_it(self, leases: Verbs) -> None:
        leases.leases.take("me")
        assert leases.leases.drop("me") is True
        assert leases.leases.find() is None
        assert leases.leases.drop("me") is False
        assert leases.leases.take("you").holder == "you"

    def test_anothers_changes_nothing(self, leases: Verbs) -> None:
        lease = leases.leases.take("me")
        assert leases.leases.drop("you") is False
        assert leases.leases.find() == lease

    def test_one_that_is_over_is_not_ones_own(self, leases: Verbs) -> None:
        leases.leases.take("me")
        leases.now += 60_000
        assert leases.leases.drop("me") is False

    def test_is_never_an_error(self, leases: Verbs) -> None:
        assert leases.leases.drop("me") is False
        assert leases.leases.drop("me", queue="no") is False


def test_a_queue_that_is_not_there(leases: Verbs) -> None:
    with pytest.raises(QueueNotFound):
        leases.leases.take("me", queue="no")
    with pytest.raises(QueueNotFound):
        leases.leases.find(queue="no")


def test_go_with_their_queue(leases: Verbs) -> None:
    leases.create("last")  # whose number stays known
    leases.leases.take("me")
    leases.delete()
    with pytest.raises(QueueNotFound):
        leases.leases.find()
    leases.create()
    assert leases.leases.find() is None
    assert leases.leases.take("you").holder == "you"
    assert leases.sweep() == 1
    assert leases.leases.find().holder == "you"


def test_the_sweep_deletes_those_that_are_over_in_steps(leases: Verbs) -> None:
    for number in range(5):
        leases.leases.take("me", name=f"over-{number}")
    leases.now += 60_000
    lasting = leases.leases.take("me")
    assert [leases.sweep(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert leases.leases.find() == lasting
    if kind_has_tables(leases.store):
        with leases.store.raw(write=False) as raw:
            assert raw.rows("SELECT name FROM lease") == [("k",)]
