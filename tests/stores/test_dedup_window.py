"""Deduplication by window: for a while after the first, a message with the same key is not stored, be the first one in
the queue or gone."""

from __future__ import annotations

from hashlib import sha256

import pytest

from penstock import ids
from penstock.model import Dedup, DedupScope, Draft, Groups, Numbered, Redrive, Sent, SentOnce
from penstock.stores import Store
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("messages", "dedup")

WINDOW_MS = 300_000


def named(dedup_id: str, body: bytes = b"x", group: str | None = None) -> Draft:
    return Draft(body, dedup_key=ids.dedup_key_of(dedup_id), group=group)


@pytest.fixture
def window(verbs: Verbs) -> Verbs:
    verbs.create(dedup=Dedup.WINDOW)
    return verbs


def twin_of(first: Sent) -> list[Sent]:
    return [Sent(first.id, False)]


class TestKeys:
    def test_a_given_id(self, window: Verbs) -> None:
        [first] = window.send(named("k", b"1"))
        assert first.stored
        assert window.send(named("k", b"2")) == twin_of(first)
        assert window.seen() == [b"1"]
        assert (window.tally().arrived, window.tally().departed) == (1, 0)

    def test_other_ids(self, window: Verbs) -> None:
        results = window.send(*(named(one) for one in ("k", "K", "k ", "\u00e4", "a\u0308", "k" * 128)))
        assert all(one.stored for one in results)

    def test_by_content(self, window: Verbs) -> None:
        [first] = window.send(b"1")
        assert window.send(Draft(b"1", content_type="a/b", attributes={"k": "v"})) == twin_of(first)
        [other] = window.send(b"2")
        assert other.stored

    def test_a_given_id_counts_and_not_the_content(self, window: Verbs) -> None:
        [first] = window.send(named("k", b"1"))
        [second] = window.send(named("l", b"1"))
        [third] = window.send(b"1")
        assert first.stored
        assert second.stored
        assert third.stored

    @pytest.mark.parametrize("id_first", [True, False])
    def test_an_id_that_is_the_hash_of_the_body(self, window: Verbs, id_first: bool) -> None:
        drafts = [named(sha256(b"body").hexdigest(), b"other"), Draft(b"body")]
        one, other = drafts if id_first else drafts[::-1]
        [first] = window.send(one)
        assert window.send(other) == twin_of(first)

    def test_an_id_that_looks_like_the_hash_but_is_not(self, window: Verbs) -> None:
        window.send(b"body")
        assert window.send(named(sha256(b"body").hexdigest().upper()))[0].stored

    def test_an_empty_body(self, window: Verbs) -> None:
        [first] = window.send(b"")
        assert window.send(b"") == twin_of(first)

    def test_every_queue_has_its_own(self, window: Verbs) -> None:
        window.create("p", dedup=Dedup.WINDOW)
        window.send(named("k"))
        assert window.send(named("k"), to="p")[0].stored

    def test_a_queue_that_does_not_ask(self, verbs: Verbs) -> None:
        verbs.create()
        assert [one.stored for one in verbs.send(named("k"), named("k"))] == [True, True]

    def test_several_at_once(self, window: Verbs) -> None:
        first, twin, other, last = window.send(named("k"), named("k"), named("l"), named("k"))
        assert (first.stored, other.stored) == (True, True)
        assert twin == last == Sent(first.id, False)
        assert len(window.seen()) == 2

    def test_in_one_unit(self, window: Verbs, store: Store) -> None:
        with store.unit() as unit:
            [first] = unit.send("q", [named("k")], window.now)
            assert unit.send("q", [named("k")], window.now) == twin_of(first)
        assert len(window.seen()) == 1

    def test_a_lost_unit_is_not_remembered(self, window: Verbs, store: Store) -> None:
        def lose() -> None:
            with store.unit() as unit:
                unit.send("q", [named("k")], window.now)
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        assert window.send(named("k"))[0].stored

    def test_the_case_of_a_thousand(self, window: Verbs) -> None:
        firsts = window.send(*(named(str(number)) for number in range(1_000)))
        again = window.send(*(named(str(number)) for number in range(500, 1_500)))
        assert [one.id for one in again[:500]] == [one.id for one in firsts[500:]]
        assert [one.stored for one in again] == [False] * 500 + [True] * 500


class TestScope:
    @pytest.fixture
    def scoped(self, verbs: Verbs) -> Verbs:
        verbs.create(dedup=Dedup.WINDOW, dedup_scope=DedupScope.GROUP)
        return verbs

    def test_in_each_group(self, scoped: Verbs) -> None:
        [first] = scoped.send(named("k", group="a"))
        [other] = scoped.send(named("k", group="b"))
        assert other.stored
        assert scoped.send(named("k", group="a")) == twin_of(first)
        assert scoped.send(named("k", group="b")) == twin_of(other)

    def test_by_content_in_each_group(self, scoped: Verbs) -> None:
        [first] = scoped.send(Draft(b"1", group="a"))
        assert scoped.send(Draft(b"1", group="b"))[0].stored
        assert scoped.send(Draft(b"1", group="a")) == twin_of(first)

    def test_without_a_group(self, scoped: Verbs) -> None:
        [first] = scoped.send(named("k"))
        assert scoped.send(named("k", group="a"))[0].stored
        assert scoped.send(named("k")) == twin_of(first)

    def test_group_and_id_are_not_run_together(self, scoped: Verbs) -> None:
        assert [one.stored for one in scoped.send(named("bc", group="a"), named("c", group="ab"))] == [True, True]

    def test_in_the_whole_queue(self, window: Verbs) -> None:
        [first] = window.send(named("k", group="a"))
        assert window.send(named("k", group="b")) == twin_of(first)

    def test_in_lines(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.WINDOW, dedup_scope=DedupScope.GROUP, groups=Groups.FIFO)
        verbs.send(named("k", b"a1", "a"), named("k", b"a2", "a"), named("k", b"b1", "b"), named("l", b"a3", "a"))
        assert verbs.bodies() == [b"a1", b"a3", b"b1"]


class TestTime:
    def test_until_its_last_millisecond(self, window: Verbs) -> None:
        [first] = window.send(named("k"))
        window.now += WINDOW_MS - 1
        assert window.send(named("k")) == twin_of(first)
        window.now += 1
        [second] = window.send(named("k"))
        assert second.stored
        assert second.id != first.id

    def test_a_twin_does_not_prolong_it(self, window: Verbs) -> None:
        window.send(named("k"))
        window.now += WINDOW_MS // 2
        window.send(named("k"))
        window.now += WINDOW_MS // 2
        assert window.send(named("k"))[0].stored

    def test_after_it_the_first_may_still_be_there(self, window: Verbs) -> None:
        window.send(named("k", b"1"))
        window.now += WINDOW_MS
        [second] = window.send(named("k", b"2"))
        assert window.seen() == [b"1", b"2"]
        window.now += WINDOW_MS - 1
        assert window.send(named("k", b"3")) == twin_of(second)

    def test_within_it_the_first_may_be_gone(self, window: Verbs) -> None:
        [first] = window.send(named("k"))
        window.ack(*window.claim())
        assert window.send(named("k")) == twin_of(first)
        assert window.seen() == []

    def test_the_first_has_expired(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.WINDOW, retention_ms=100)
        [first] = verbs.send(named("k"))
        verbs.now += 100
        assert verbs.bodies() == []
        assert verbs.send(named("k")) == twin_of(first)

    def test_the_first_is_a_dead_letter(self, verbs: Verbs) -> None:
        verbs.create("dead")
        verbs.create(dedup=Dedup.WINDOW, redrive=Redrive(1, "dead"))
        [first] = verbs.send(named("k"))
        verbs.claim(hold_ms=0)
        verbs.claim()
        assert len(verbs.seen("dead")) == 1
        assert verbs.send(named("k")) == twin_of(first)

    @pytest.mark.parametrize("window_ms", [1, 1_000, 86_400_000])
    def test_a_window_of_choice(self, verbs: Verbs, window_ms: int) -> None:
        verbs.create(dedup=Dedup.WINDOW, dedup_window_ms=window_ms)
        [first] = verbs.send(named("k"))
        verbs.now += window_ms - 1
        assert verbs.send(named("k")) == twin_of(first)
        verbs.now += 1
        assert verbs.send(named("k"))[0].stored

    @pytest.mark.parametrize("changed", [1_000, 5_000])
    def test_a_changed_window_counts_for_those_sent_after_it(self, verbs: Verbs, changed: int) -> None:
        verbs.create(dedup=Dedup.WINDOW, dedup_window_ms=3_000)
        [first] = verbs.send(named("k"))
        verbs.update(dedup=Dedup.WINDOW, dedup_window_ms=changed)
        [later] = verbs.send(named("l"))
        verbs.now += min(changed, 3_000) - 1
        assert verbs.send(named("k")) == twin_of(first)
        assert verbs.send(named("l")) == twin_of(later)
        verbs.now += 1
        assert verbs.send(named("k"))[0].stored == (changed == 5_000)
        assert verbs.send(named("l"))[0].stored == (changed == 1_000)

    def test_a_sweep_forgets_what_is_over(self, window: Verbs) -> None:
        window.send(named("k"), named("l"))
        window.now += WINDOW_MS - 1
        window.send(named("m"))
        assert window.sweep() == 0
        window.now += 1
        assert window.sweep() == 2
        assert window.sweep() == 0
        assert not window.send(named("m"))[0].stored

    def test_a_sweep_in_small_steps(self, window: Verbs) -> None:
        window.send(*(named(str(number)) for number in range(5)))
        window.now += WINDOW_MS
        freed = 0
        while step := window.sweep(limit=2):
            freed += step
        assert freed == 5

    def test_the_clock_is_set_back(self, window: Verbs) -> None:
        """A twin in the first one's future is a twin."""
        [first] = window.send(named("k"))
        window.now -= 1_000
        assert window.send(named("k")) == twin_of(first)


class TestForgetting:
    def test_a_purge_forgets(self, window: Verbs) -> None:
        window.send(named("k"))
        window.purge()
        assert window.send(named("k"))[0].stored

    def test_a_purge_forgets_what_is_gone_as_well(self, window: Verbs) -> None:
        window.send(named("k"))
        window.ack(*window.claim())
        assert window.purge() == 0
        assert window.send(named("k"))[0].stored

    def test_a_purge_forgets_up_to_where_it_goes(self, window: Verbs) -> None:
        window.send(named("k"))
        through = window.last_seq()
        [second] = window.send(named("l"))
        window.purge(through=through)
        assert window.send(named("l")) == twin_of(second)
        assert window.send(named("k"))[0].stored

    def test_a_purge_of_another_queue_forgets_nothing(self, window: Verbs) -> None:
        window.create("p", dedup=Dedup.WINDOW)
        [first] = window.send(named("k"))
        window.purge("p")
        assert window.send(named("k")) == twin_of(first)

    def test_a_purge_by_age_forgets_nothing(self, window: Verbs) -> None:
        [first] = window.send(named("k"))
        window.now += 1
        assert window.purge_older(window.now).count == 1
        assert window.send(named("k")) == twin_of(first)

    def test_a_queue_of_the_same_name_again_knows_nothing(self, window: Verbs) -> None:
        window.send(named("k"))
        window.delete()
        window.create(dedup=Dedup.WINDOW)
        assert window.send(named("k"))[0].stored
        while window.sweep():
            pass
        assert not window.send(named("k"))[0].stored

    def test_what_a_deleted_queue_knew_is_freed(self, window: Verbs) -> None:
        window.send(named("k"))
        window.delete()
        while window.sweep():
            pass
        window.now += WINDOW_MS
        assert window.sweep() == 1
        assert window.sweep() == 0

    def test_a_queue_that_asks_no_more(self, window: Verbs) -> None:
        window.send(named("k"))
        window.update(dedup=Dedup.OFF)
        assert window.send(named("k"))[0].stored

    def test_a_queue_that_begins_to_ask(self, verbs: Verbs) -> None:
        verbs.create()
        verbs.send(named("k"))
        verbs.update(dedup=Dedup.WINDOW)
        [first] = verbs.send(named("k"))
        assert first.stored
        assert verbs.send(named("k")) == twin_of(first)


class TestOtherWays:
    @pytest.mark.parametrize("as_new", [False, True])
    @pytest.mark.needs("moves")
    def test_a_message_that_comes_by_a_move_is_not_asked(self, window: Verbs, as_new: bool) -> None:
        window.create("p", dedup=Dedup.WINDOW)
        window.send(named("k", b"1"))
        window.send(named("k", b"2"), to="p")
        assert window.move("p", "q", as_new=as_new) == 1
        assert window.seen() == [b"1", b"2"]

    @pytest.mark.parametrize("as_new", [False, True])
    @pytest.mark.needs("moves")
    def test_nor_does_it_keep_another_out(self, window: Verbs, as_new: bool) -> None:
        window.create("p", dedup=Dedup.WINDOW)
        window.send(named("k", b"1"), to="p")
        window.move("p", "q", as_new=as_new)
        assert window.send(named("k", b"2"))[0].stored
        assert not window.send(named("k", b"3"), to="p")[0].stored

    def test_dead_letters_are_not_asked(self, verbs: Verbs) -> None:
        verbs.create("dead", dedup=Dedup.WINDOW)
        verbs.create(redrive=Redrive(1, "dead"))
        verbs.send(b"1", b"1")
        verbs.claim(hold_ms=0)
        verbs.claim()
        assert verbs.seen("dead") == [b"1", b"1"]

    def test_with_an_idempotency_key(self, window: Verbs) -> None:
        window.send(b"a")
        assert window.send_once("i", b"a", b"b", b"b") == SentOnce(3, 1, False)
        assert window.send_once("i", b"a", b"b", b"b") == SentOnce(3, 1, True)
        assert window.send_once("j", b"a") == SentOnce(1, 0, False)
        assert window.stirred == set()

    @pytest.mark.needs("consumers")
    def test_messages_that_had_their_numbers_first(self, window: Verbs, store: Store) -> None:
        window.send(named("k"))
        with store.unit() as unit:
            seqs = unit.consumers.reserve(3).seqs
            drafts = [named("k", b"1"), named("l", b"2"), named("l", b"3")]
            made = [Numbered(seq, window.now, draft) for seq, draft in zip(seqs, drafts, strict=True)]
            unit.consumers.push("q", made, window.now)
        assert window.seen() == [b"x", b"2"]
        [sent] = window.send(named("l"))
        assert (sent.stored, ids.seq_of(sent.id)) == (False, seqs[1])

    @pytest.mark.needs("consumers")
    def test_pushed_again(self, window: Verbs, store: Store) -> None:
        """The same message, whose first push may have succeeded, is stored once, whether it has or not."""
        for body in (b"1", b"2"):
            with store.unit() as unit:
                [seq] = unit.consumers.reserve(1).seqs
                made = [Numbered(seq, window.now, Draft(body))]
                if body == b"1":
                    unit.consumers.push("q", made, window.now)
            with store.unit() as unit:
                unit.consumers.push("q", made, window.now, again=True)
        assert window.seen() == [b"1", b"2"]
        assert window.tally().arrived == 2

    def test_the_kind_of_dedup_may_change(self, verbs: Verbs) -> None:
        verbs.create(dedup=Dedup.SEND)
        [first] = verbs.send(b"1")
        verbs.update(dedup=Dedup.WINDOW)
        [second] = verbs.send(b"1")
        assert second.stored
        assert verbs.send(b"1") == twin_of(second)
        verbs.update(dedup=Dedup.SEND)
        assert verbs.send(b"1") == twin_of(first)
