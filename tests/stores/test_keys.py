"""API keys as a store keeps them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.errors import KeyExists, KeyHasTwoSecrets, KeyNotFound, KeyRevoked, TooLarge
from penstock.limits import Limits
from penstock.model import Key, KeyUse, OldSecret

pytestmark = pytest.mark.needs("keys")

ONE, TWO, THREE, OTHER = (bytes([byte]) * 32 for byte in range(4))


class Lost(Exception):
    pass


def test_a_new_store_has_no_keys_and_a_secret_of_its_own(store, other_store, verbs):
    assert verbs.keys.list() == []
    assert len(store.secret) >= 32
    assert store.secret != other_store.secret


def test_create_and_list_in_the_order_of_creation(verbs):
    rules = ("queue|post|orders-*", "queue|poll|*")
    second = verbs.create_key("b", b"\x00\xff" * 16, rules)
    verbs.now += 1
    first = verbs.create_key("a", TWO)
    assert verbs.keys.list() == [second, first]
    assert verbs.keys.list()[0] == Key("b", b"\x00\xff" * 16, rules, 1_000_000)


def test_a_name_is_used_once(verbs):
    first = verbs.create_key("k", ONE)
    with pytest.raises(KeyExists):
        verbs.create_key("k", TWO)
    verbs.keys.revoke("k")
    with pytest.raises(KeyExists):
        verbs.create_key("k", THREE)
    assert [key.digest for key in verbs.keys.list()] == [first.digest]


def test_names_are_compared_letter_by_letter(verbs):
    verbs.create_key("k", ONE)
    verbs.create_key("K", TWO)
    verbs.keys.revoke("K")
    assert [key.revoked_at for key in verbs.keys.list()] == [None, verbs.now]


def test_revoke_once_and_for_all(verbs):
    verbs.create_key("k", ONE)
    verbs.create_key("other", TWO)
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
    verbs.create_key("a", ONE)
    verbs.create_key("b", TWO)
    verbs.keys.revoke("a")
    with pytest.raises(TooLarge, match="at most 2"):
        verbs.create_key("c", THREE)


def test_a_lost_unit_leaves_the_keys_as_they_were(verbs):
    kept = verbs.create_key("a", ONE)
    with suppress(Lost), verbs.unit() as unit:
        unit.keys.create(Key("b", TWO, ("queue|*|*",), verbs.now))
        unit.keys.revoke("a", verbs.now)
        raise Lost
    assert verbs.keys.list() == [kept]


class TestExpiry:
    def test_it_is_set_changed_and_taken_away(self, verbs):
        verbs.keys.create(Key("k", ONE, ("queue|*|*",), verbs.now, expires_at=verbs.now + 5))
        verbs.create_key("other", TWO)
        assert [key.expires_at for key in verbs.keys.list()] == [verbs.now + 5, None]
        assert verbs.keys.update(name="k", expires_at=verbs.now + 9) == verbs.keys.list()[0]
        assert [key.expires_at for key in verbs.keys.list()] == [verbs.now + 9, None]
        assert verbs.keys.update(name="k", expires_at=None).expires_at is None

    def test_the_same_again_is_no_error(self, verbs):
        verbs.create_key("k", ONE)
        for _ in range(2):
            assert verbs.keys.update(name="k", expires_at=7).expires_at == 7

    @pytest.mark.parametrize(
        "change", [("update", {"expires_at": 1}), ("rotate", {"digest": OTHER, "old_until": None}), ("retire", {})]
    )
    def test_of_none_and_of_one_that_was_revoked(self, verbs, change):
        verb, arguments = change
        with pytest.raises(KeyNotFound):
            getattr(verbs.keys, verb)(name="nobody", **arguments)
        verbs.create_key("k", ONE)
        verbs.keys.revoke("k")
        before = verbs.keys.list()
        with pytest.raises(KeyRevoked):
            getattr(verbs.keys, verb)(name="k", **arguments)
        assert verbs.keys.list() == before


class TestTwoSecrets:
    def test_the_old_one_stays_until_it_is_retired(self, verbs):
        made = verbs.create_key("k", ONE)
        verbs.now += 5
        rotated = verbs.keys.rotate(name="k", digest=TWO, old_until=None)
        assert (rotated.digest, rotated.old, rotated.rotated_at) == (TWO, OldSecret(ONE), verbs.now)
        assert (rotated.rules, rotated.created_at) == (made.rules, made.created_at)
        assert verbs.keys.list() == [rotated]
        for _ in range(2):
            retired = verbs.keys.retire(name="k")
            assert (retired.digest, retired.old) == (TWO, None)
        assert verbs.keys.list() == [retired]

    def test_there_is_never_a_third(self, verbs):
        verbs.create_key("k", ONE)
        verbs.keys.rotate(name="k", digest=TWO, old_until=verbs.now + 10)
        verbs.now += 9
        with pytest.raises(KeyHasTwoSecrets):
            verbs.keys.rotate(name="k", digest=THREE, old_until=None)
        verbs.now += 1
        assert verbs.keys.rotate(name="k", digest=THREE, old_until=None).old == OldSecret(TWO)

    def test_a_unit_that_fails_rotates_nothing(self, store, verbs):
        before = verbs.create_key("k", ONE)
        with suppress(Lost), store.unit() as unit:
            unit.keys.rotate("k", TWO, None, verbs.now)
            unit.keys.note_uses([KeyUse("k", TWO, 5)])
            raise Lost
        assert verbs.keys.list() == [before]


class TestUses:
    def used(self, verbs):
        return [(key.last_used_at, key.old and key.old.last_used_at) for key in verbs.keys.list()]

    def test_the_latest_counts(self, verbs):
        verbs.create_key("k", ONE)
        verbs.create_key("other", TWO)
        assert self.used(verbs) == [(None, None), (None, None)]
        verbs.keys.note_uses(uses=[KeyUse("other", TWO, 9), KeyUse("k", ONE, 7)])
        verbs.keys.note_uses(uses=[KeyUse("k", ONE, 5), KeyUse("other", TWO, 10)])
        assert self.used(verbs) == [(7, None), (10, None)]

    def test_of_each_secret_and_of_either(self, verbs):
        verbs.create_key("k", ONE)
        verbs.keys.note_uses(uses=[KeyUse("k", ONE, 5)])
        verbs.keys.rotate(name="k", digest=TWO, old_until=None)
        assert self.used(verbs) == [(5, 5)]
        verbs.keys.note_uses(uses=[KeyUse("k", TWO, 8)])
        assert self.used(verbs) == [(8, 5)]
        verbs.keys.note_uses(uses=[KeyUse("k", ONE, 9)])
        assert self.used(verbs) == [(9, 9)]
        verbs.keys.retire(name="k")
        verbs.keys.note_uses(uses=[KeyUse("k", ONE, 11), KeyUse("gone", OTHER, 11)])
        assert self.used(verbs) == [(9, None)]


class TestEndedSessions:
    def ended(self, verbs, name="k"):
        return next(key.ended for key in verbs.keys.list() if key.name == name)

    def test_they_are_kept_with_their_key(self, verbs):
        verbs.create_key("k", ONE)
        verbs.create_key("other", TWO)
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
        verbs.create_key("k", ONE)
        verbs.keys.end_session(name="k", session="early", until=verbs.now + 5)
        verbs.keys.end_session(name="k", session="late", until=verbs.now + 50)
        verbs.now += 5
        verbs.keys.end_session(name="k", session="new", until=verbs.now + 50)
        assert self.ended(verbs) == {"late", "new"}

    @pytest.mark.parametrize("limits", [Limits(ended_sessions=3)])
    def test_of_too_many_those_that_end_first(self, verbs, limits):
        verbs.create_key("k", ONE)
        for number in (9, 2, 5, 7):
            verbs.keys.end_session(name="k", session=f"s{number}", until=verbs.now + number)
        assert self.ended(verbs) == {"s9", "s5", "s7"}

    def test_a_unit_that_fails_ends_none(self, store, verbs):
        verbs.create_key("k", ONE)
        with suppress(Lost), store.unit() as unit:
            unit.keys.end_session("k", "one", verbs.now + 10, verbs.now)
            raise Lost
        assert self.ended(verbs) == frozenset()
