"""API keys as a store keeps them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import KeyExists, KeyNotFound, TooLarge
from penstock.limits import Limits
from penstock.model import Key

pytestmark = pytest.mark.needs("keys")


class Lost(Exception):
    pass


def test_a_new_store_has_no_keys_and_a_secret_of_its_own(store, other_store, verbs):
    assert verbs.keys.list() == []
    assert len(store.secret) >= 32
    assert store.secret != other_store.secret


def test_create_and_list_in_the_order_of_creation(verbs):
    rules = ("queue|post|orders-*", "queue|poll|*")
    second = verbs.create_key("b", b"\x00\xff", rules)
    verbs.now += 1
    first = verbs.create_key("a", b"2")
    assert verbs.keys.list() == [second, first]
    assert verbs.keys.list()[0] == Key("b", b"\x00\xff", rules, 1_000_000)


def test_a_name_is_used_once(verbs):
    first = verbs.create_key("k", b"1")
    with pytest.raises(KeyExists):
        verbs.create_key("k", b"2")
    verbs.keys.revoke("k")
    with pytest.raises(KeyExists):
        verbs.create_key("k", b"3")
    assert [key.digest for key in verbs.keys.list()] == [first.digest]


def test_names_are_compared_letter_by_letter(verbs):
    verbs.create_key("k", b"1")
    verbs.create_key("K", b"2")
    verbs.keys.revoke("K")
    assert [key.revoked_at for key in verbs.keys.list()] == [None, verbs.now]


def test_revoke_once_and_for_all(verbs):
    verbs.create_key("k", b"1")
    verbs.create_key("other", b"2")
    verbs.now += 5
    verbs.keys.revoke("k")
    verbs.now += 5
    verbs.keys.revoke("k")
    assert [(key.name, key.revoked_at) for key in verbs.keys.list()] == [("k", verbs.now - 5), ("other", None)]


def test_an_unknown_name(verbs):
    with pytest.raises(KeyNotFound):
        verbs.keys.revoke("nobody")


@pytest.mark.parametrize("limits", [Limits(keys=2)])
def test_the_most_there_can_be_revoked_ones_included(verbs):
    verbs.create_key("a", b"1")
    verbs.create_key("b", b"2")
    verbs.keys.revoke("a")
    with pytest.raises(TooLarge, match="at most 2"):
        verbs.create_key("c", b"3")


def test_a_lost_unit_leaves_the_keys_as_they_were(verbs):
    kept = verbs.create_key("a", b"1")
    with suppress(Lost), verbs.unit() as unit:
        unit.keys.create(Key("b", b"2", ("queue|*|*",), verbs.now))
        unit.keys.revoke("a", verbs.now)
        raise Lost
    assert verbs.keys.list() == [kept]


class TestEndedSessions:
    def ended(self, verbs, name="k"):
        return next(key.ended for key in verbs.keys.list() if key.name == name)

    def test_they_are_kept_with_their_key(self, verbs):
        verbs.create_key("k", b"1")
        verbs.create_key("other", b"2")
        assert self.ended(verbs) == frozenset()
        verbs.keys.end_session(name="k", session="one", until=verbs.now + 10)
        verbs.keys.end_session(name="k", session="two", until=verbs.now + 10)
        verbs.keys.end_session(name="k", session="two", until=verbs.now + 10)
        assert self.ended(verbs) == {"one", "two"}
        assert self.ended(verbs, "other") == frozenset()

    def test_a_key_that_is_not_there_has_none(self, verbs):
        with pytest.raises(KeyNotFound):
            verbs.keys.end_session(name="k", session="one", until=verbs.now + 10)

    def test_those_that_have_ended_by_themselves_are_forgotten(self, verbs):
        verbs.create_key("k", b"1")
        verbs.keys.end_session(name="k", session="early", until=verbs.now + 5)
        verbs.keys.end_session(name="k", session="late", until=verbs.now + 50)
        verbs.now += 5
        verbs.keys.end_session(name="k", session="new", until=verbs.now + 50)
        assert self.ended(verbs) == {"late", "new"}

    @pytest.mark.parametrize("limits", [Limits(ended_sessions=3)])
    def test_of_too_many_those_that_end_first(self, verbs, limits):
        verbs.create_key("k", b"1")
        for number in (9, 2, 5, 7):
            verbs.keys.end_session(name="k", session=f"s{number}", until=verbs.now + number)
        assert self.ended(verbs) == {"s9", "s5", "s7"}

    def test_a_unit_that_fails_ends_none(self, store, verbs):
        verbs.create_key("k", b"1")
        with suppress(Lost), store.unit() as unit:
            unit.keys.end_session("k", "one", verbs.now + 10, verbs.now)
            raise Lost
        assert self.ended(verbs) == frozenset()
