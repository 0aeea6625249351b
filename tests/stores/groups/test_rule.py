"""Groups: of a line, a claim takes the messages from the first up to one that is hidden."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import InvalidRequest, SettingFixed
from penstock.limits import Limits
from penstock.model import Dedup, Draft, Groups, Message, PeekAfter, Receipt, Settings
from tests.stores.groups.conftest import LineVerbs, draft

pytestmark = pytest.mark.needs("messages")

LONG_MS = 50_000


class TestTheRule:
    @pytest.mark.parametrize(("held", "free"), [("a1", ""), ("a2", "a1"), ("a3", "a1 a2")])
    def test_up_to_the_first_that_is_hidden(self, lines: LineVerbs, held: str, free: str) -> None:
        lines.put("a1 a2 a3")
        longer = next(message for message in lines.claim() if message.body == held.encode())
        lines.renew(longer, until=lines.now + LONG_MS)
        lines.now += 1_000
        assert lines.take() == free

    def test_all_of_a_line_in_its_order(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        assert lines.take() == "a1 a2 a3"
        assert lines.take() == ""

    def test_behind_a_claimed_head_the_others_wait(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        assert lines.take(1) == "a1"
        assert lines.take() == ""

    def test_once_the_head_has_gone_the_others_come_at_once(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        lines.ack(*lines.claim(1))
        assert lines.take() == "a2 a3"

    def test_of_two_that_are_claimed_the_first_given_back_comes_alone(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, _ = lines.claim(2)
        lines.release(first)
        assert lines.take() == "a1"
        assert lines.take() == ""

    def test_of_two_that_are_claimed_the_second_given_back_waits_for_the_first(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second = lines.claim(2)
        lines.release(second)
        assert lines.take() == ""
        lines.ack(first)
        assert lines.take() == "a2 a3"

    def test_of_two_that_are_claimed_the_second_acked_frees_nothing(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3")
        first, second = lines.claim(2)
        lines.ack(second)
        assert lines.take() == ""
        lines.ack(first)
        assert lines.take() == "a3"

    def test_messages_sent_meanwhile_wait(self, lines: LineVerbs) -> None:
        lines.put("a1")
        [head] = lines.claim()
        lines.put("a2")
        lines.put("a3")
        assert lines.take() == ""
        lines.ack(head)
        assert lines.take() == "a2 a3"

    def test_groups_do_not_wait_for_each_other(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 b2")
        assert lines.take(1) == "a1"
        assert lines.take() == "b1 b2"

    def test_as_many_of_one_group_as_can_be_then_the_next(self, lines: LineVerbs) -> None:
        lines.put("b1 a1 c1 a2 b2 a3")
        assert lines.take(4) == "b1 b2 a1 a2"
        assert lines.take() == "c1"

    def test_the_group_whose_first_message_is_the_oldest_comes_first(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 b2")
        lines.ack(*lines.claim(1))
        lines.put("a2 c1")
        assert lines.take() == "b1 b2 a2 c1"

    def test_a_line_that_has_been_empty_begins_anew(self, lines: LineVerbs) -> None:
        for text in ("a1", "a2", "a3"):
            lines.put(text)
            [head] = lines.claim()
            assert head.body == text.encode()
            lines.ack(head)
        assert lines.peek() == []

    def test_a_message_without_a_group_waits_for_no_other(self, lines: LineVerbs) -> None:
        lines.put("-1 a1 -2 a2 -3")
        assert lines.take(2) == "-1 a1"
        assert lines.take(1) == "-2"
        lines.put("-4")
        assert lines.take() == "-3 -4"

    def test_messages_without_a_group_may_return_in_any_order(self, lines: LineVerbs) -> None:
        lines.put("-1 -2")
        _, second = lines.claim()
        lines.release(second)
        assert lines.take() == "-2"

    def test_the_same_group_of_another_queue_is_another_line(self, lines: LineVerbs) -> None:
        lines.create_fifo("p")
        lines.put("a1 a2")
        lines.put("a3 a4", to="p")
        lines.claim(1)
        assert lines.take(queue="p") == "a3 a4"

    def test_names_of_groups_are_told_apart_by_every_sign(self, lines: LineVerbs) -> None:
        names = ["g", "G", "g ", " g", "ä", "a\u0308", "g" * limits.GROUP_LENGTH, "\U0001f600", "g\u00df", "gss"]
        lines.send(*(Draft(b"x", group=name) for name in names))
        assert [message.group for message in lines.claim()] == names

    def test_the_longest_names_of_the_widest_signs(self, lines: LineVerbs) -> None:
        names = ["\U0001f600" * limits.GROUP_LENGTH, "\U0001f600" * (limits.GROUP_LENGTH - 1) + "\U0001f601"]
        lines.send(*(Draft(b"x", group=name) for name in names))
        assert [message.group for message in lines.claim()] == names

    def test_a_long_line(self, lines: LineVerbs) -> None:
        bodies = [b"a%d" % number for number in range(1_200)]
        lines.send(*(Draft(body, group="a") for body in bodies))
        assert [message.body for message in lines.claim(700)] == bodies[:700]
        assert lines.take() == ""
        lines.now += 1_000
        assert lines.bodies(2_000) == bodies

    def test_many_lines(self, lines: LineVerbs) -> None:
        lines.send(*(Draft(b"%d" % number, group=str(number % 300)) for number in range(900)))
        taken = lines.claim(1_000)
        assert [message.body for message in taken] == [b"%d" % (n % 300 + k) for n in range(300) for k in (0, 300, 600)]


class TestLabels:
    def test_a_group_travels_with_its_message(self, lines: LineVerbs) -> None:
        lines.put("a1 -2")
        assert [message.group for message in lines.peek()] == ["a", None]
        assert [message.group for message in lines.claim()] == ["a", None]

    def test_in_a_queue_without_lines_a_group_is_a_word(self, verbs: LineVerbs) -> None:
        verbs.create(visibility_ms=1_000)
        verbs.put("a1 a2 b1 a3")
        first, second = verbs.claim(2)
        assert (first.group, second.group) == ("a", "a")
        verbs.release(second)
        assert verbs.take() == "a2 b1 a3"
        assert verbs.ack(second) == [False]
        verbs.now += 1_000
        assert verbs.ack(first) == [True]


class TestHolds:
    def test_a_hold_of_nothing_hands_out_each_once_and_leaves_them_ready(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 -1 a3")
        for receives in (1, 2):
            taken = lines.claim(hold_ms=0)
            assert [(message.body, message.receives, message.ready_at) for message in taken] == [
                (body, receives, lines.now) for body in (b"a1", b"a2", b"a3", b"b1", b"-1")
            ]
        assert lines.count().ready == 5

    def test_a_hold_of_nothing_keeps_none_back(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        assert lines.take(1, hold_ms=0) == "a1"
        assert lines.take(1) == "a1"
        assert lines.take() == ""

    @pytest.mark.parametrize("limits", [Limits(claim_bytes=5)])
    def test_bytes_end_a_claim_within_a_line(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3 a4 b1")
        claimed = lines.claimed()
        assert ([message.body for message in claimed.messages], claimed.more) == ([b"a1", b"a2", b"a3"], True)
        claimed = lines.claimed()
        assert ([message.body for message in claimed.messages], claimed.more) == ([b"b1"], False)

    def test_a_claim_of_none(self, lines: LineVerbs) -> None:
        lines.put("a1")
        assert lines.take(0) == ""
        assert lines.take() == "a1"


class TestDelays:
    def test_the_delay_of_the_queue(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1")
        verbs.now += 40
        verbs.put("a2 b1")
        verbs.now += 60
        assert verbs.take() == "a1"
        verbs.now += 40
        assert verbs.take() == "b1"

    def test_one_whose_delay_is_over_is_taken_with_those_before_it(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1")
        verbs.now += 40
        verbs.put("a2")
        verbs.now += 40
        verbs.put("a3")
        verbs.now += 99
        assert verbs.take() == "a1 a2"
        assert verbs.take() == ""

    def test_a_delayed_follower_does_not_keep_its_head_back(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1")
        verbs.now += 99
        verbs.put("a2")
        verbs.now += 1
        [head] = verbs.claim()
        assert head.body == b"a1"
        verbs.ack(head)
        assert verbs.take() == ""
        assert verbs.next_due() == verbs.now + 99
        verbs.now += 99
        assert verbs.take() == "a2"

    def test_a_changed_delay_counts_for_those_whose_turn_comes(self, verbs: LineVerbs) -> None:
        verbs.create_fifo()
        verbs.put("a1 a2")
        [head] = verbs.claim(1)
        verbs.update(groups=Groups.FIFO, delay_ms=100)
        verbs.now += 50
        verbs.ack(head)
        assert verbs.take() == ""
        verbs.now += 50
        assert verbs.take() == "a2"

    def test_a_delay_that_was_ended_counts_no_more_for_those_whose_turn_comes(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1")
        verbs.now += 90
        verbs.put("a2")
        verbs.now += 10
        [head] = verbs.claim()
        verbs.update(groups=Groups.FIFO)
        verbs.ack(head)
        assert verbs.take() == "a2"

    def test_one_that_is_ready_or_delayed_already_stays_so_when_the_delay_changes(self, verbs: LineVerbs) -> None:
        verbs.create_fifo()
        verbs.put("a1")
        verbs.update(groups=Groups.FIFO, delay_ms=100)
        verbs.put("b1")
        verbs.update(groups=Groups.FIFO, delay_ms=10)
        assert verbs.take() == "a1"
        verbs.now += 99
        assert verbs.take() == ""
        verbs.now += 1
        assert verbs.take() == "b1"

    def test_one_that_was_received_has_its_delay_behind_it(self, verbs: LineVerbs) -> None:
        verbs.create_fifo()
        verbs.put("a1 a2")
        first, second = verbs.claim()
        verbs.update(groups=Groups.FIFO, delay_ms=10_000)
        verbs.release(second)
        verbs.ack(first)
        assert verbs.take() == "a2"

    def test_a_delay_of_its_own_is_refused(self, lines: LineVerbs) -> None:
        for delay_ms in (0, 5):
            with pytest.raises(InvalidRequest, match="delay"):
                lines.send(draft("a1"), draft("a2", delay_ms=delay_ms))
        assert lines.peek() == []
        assert lines.tally().arrived == 0

    def test_a_unit_goes_on_after_a_refused_delay(self, lines: LineVerbs) -> None:
        with lines.unit() as unit:
            unit.send("q", [draft("a1")], lines.now)
            with pytest.raises(InvalidRequest):
                unit.send("q", [draft("a2", delay_ms=1)], lines.now)
            unit.send("q", [draft("a3")], lines.now)
        assert lines.take() == "a1 a3"

    def test_refused_as_well_with_an_idempotency_key(self, lines: LineVerbs) -> None:
        with pytest.raises(InvalidRequest), lines.unit() as unit:
            unit.messages.send_once("q", "k", b"d", [draft("a1", delay_ms=1)], lines.now)
        assert not lines.send_once("k", b"x").repeated

    def test_a_unit_goes_on_and_does_not_remember_the_idempotency_key(self, lines: LineVerbs) -> None:
        with lines.unit() as unit:
            with pytest.raises(InvalidRequest):
                unit.messages.send_once("q", "k", b"d", [draft("a1", delay_ms=1)], lines.now)
            assert not unit.messages.send_once("q", "k", b"d", [draft("a1")], lines.now).repeated
        assert lines.take() == "a1"

    def test_without_a_group_it_may_have_one(self, lines: LineVerbs) -> None:
        lines.send(draft("-1", delay_ms=10), draft("-2"))
        assert lines.take() == "-2"
        lines.now += 10
        assert lines.take() == "-1"

    def test_where_a_group_is_a_word_it_may_have_one(self, verbs: LineVerbs) -> None:
        verbs.create()
        verbs.send(draft("a1", delay_ms=10), draft("a2"))
        assert verbs.take() == "a2"


class TestStates:
    """Peek, count, and when something is due."""

    def test_a_peek_shows_who_waits_behind(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 -1")
        assert [(message.body, message.ready_at) for message in lines.peek()] == [
            (b"a1", 0),
            (b"b1", 0),
            (b"-1", 0),
            (b"a2", limits.BEHIND),
        ]
        lines.claim(1)
        assert [(message.body, message.ready_at) for message in lines.peek()] == [
            (b"b1", 0),
            (b"-1", 0),
            (b"a1", lines.now + 1_000),
            (b"a2", limits.BEHIND),
        ]

    def test_a_peek_by_pages_shows_all(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 a2 a3 -1")
        lines.claim(1)
        seen: list[Message] = []
        after = PeekAfter(0, 0)
        while page := lines.peek(limit=2, after=after):
            seen += page
            after = PeekAfter(seen[-1].ready_at, seen[-1].seq)
        assert seen == lines.peek()
        assert len(seen) == 5

    def test_those_behind_count_as_ready(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3 b1")
        lines.claim(1)
        count = lines.count()
        assert (count.total, count.ready, count.claimed, count.delayed, count.exact) == (4, 3, 1, 0, True)

    def test_those_behind_a_delayed_head_count_as_ready(self, verbs: LineVerbs) -> None:
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1 a2")
        count = verbs.count()
        assert (count.total, count.ready, count.claimed, count.delayed) == (2, 1, 0, 1)

    def test_the_oldest_and_the_oldest_that_is_ready(self, lines: LineVerbs) -> None:
        start = lines.now
        for text in ("a1", "a2", "b1"):
            lines.put(text)
            lines.now += 10
        assert (lines.count().oldest_sent_at, lines.count().oldest_ready_sent_at) == (start, start)
        lines.claim(1)
        assert (lines.count().oldest_sent_at, lines.count().oldest_ready_sent_at) == (start, start + 10)
        lines.claim()
        assert (lines.count().oldest_sent_at, lines.count().oldest_ready_sent_at) == (start, start + 10)

    def test_only_those_behind_are_ready(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        lines.claim(1)
        count = lines.count()
        assert (count.ready, count.oldest_ready_sent_at) == (1, lines.now)

    @pytest.mark.parametrize("limit", [0, 1, 2, 3])
    def test_a_bounded_count_with_a_long_line(self, lines: LineVerbs, limit: int) -> None:
        lines.put("a1 a2 a3 a4 a5 b1 b2 b3")
        lines.claim(1)
        count = lines.count(limit=limit)
        assert count.total == 8
        assert count.ready + count.claimed + count.delayed == 8
        assert count.claimed == min(limit, 1)
        assert count.exact == (limit > 1)

    def test_several_queues_are_counted_alike(self, lines: LineVerbs) -> None:
        lines.create("p")
        lines.put("a1 a2 b1")
        lines.put("a1 a2", to="p")
        lines.claim(1)
        lines.claim(1, queue="p")
        assert lines.counts("q", "p") == [lines.count("q"), lines.count("p")]
        assert [count.ready for count in lines.counts("q", "p")] == [2, 1]

    def test_next_due_is_the_end_of_a_claim_and_never_a_place_in_line(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        assert lines.next_due() is None
        lines.claim(1)
        assert lines.next_due() == lines.now + 1_000
        lines.now += 1_000
        assert lines.next_due() is None

    def test_a_claim_that_has_run_out_behind_a_held_head_is_due_no_more(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        first, _ = lines.claim()
        lines.renew(first, until=lines.now + LONG_MS)
        end = lines.now + LONG_MS
        assert lines.next_due() == lines.now + 1_000
        lines.now += 1_000
        assert lines.take() == ""
        assert lines.next_due() == end
        assert (lines.count().ready, lines.count().claimed) == (1, 1)


class TestSettings:
    @pytest.mark.parametrize(("first", "second"), [(Groups.OFF, Groups.FIFO), (Groups.FIFO, Groups.OFF)])
    def test_chosen_once(self, verbs: LineVerbs, first: Groups, second: Groups) -> None:
        created = verbs.create(groups=first)
        verbs.put("a1")
        with pytest.raises(SettingFixed, match="groups"):
            verbs.update(groups=second, delay_ms=5)
        assert verbs.find() == created
        assert verbs.find().settings == Settings(groups=first)

    def test_everything_else_can_be_changed(self, verbs: LineVerbs) -> None:
        verbs.create_fifo()
        wanted = Settings(groups=Groups.FIFO, delay_ms=5, dedup=Dedup.WINDOW, dedup_window_ms=7)
        with verbs.unit() as unit:
            unit.update_queue("q", wanted, verbs.now)
        assert verbs.find().settings == wanted

    def test_no_dedup_by_claim(self, verbs: LineVerbs) -> None:
        with pytest.raises(InvalidRequest, match="groups"):
            verbs.create_fifo(dedup=Dedup.CLAIM)
        assert verbs.find() is None
        verbs.create_fifo()
        with pytest.raises(InvalidRequest, match="groups"):
            verbs.update(groups=Groups.FIFO, dedup=Dedup.CLAIM)
        assert verbs.find().settings.dedup is Dedup.OFF

    @pytest.mark.parametrize("dedup", [Dedup.SEND, Dedup.WINDOW])
    def test_the_other_kinds_of_dedup_go_with_groups(self, verbs: LineVerbs, dedup: Dedup) -> None:
        verbs.create_fifo(dedup=dedup)
        first, second = verbs.put("a1 a1")
        assert (first.stored, second.stored, second.id) == (True, False, first.id)
        verbs.put("a2")
        assert verbs.take() == "a1 a2"

    def test_a_queue_of_the_same_name_again_may_be_another_kind(self, verbs: LineVerbs) -> None:
        verbs.create_fifo()
        verbs.put("a1 a2")
        verbs.claim(1)
        verbs.delete()
        verbs.create()
        verbs.put("a3 a4")
        assert verbs.take(1) == "a3"
        assert verbs.take() == "a4"
        verbs.delete()
        verbs.create_fifo()
        verbs.put("a5 a6")
        assert verbs.take(1) == "a5"
        assert verbs.take() == ""
        while verbs.sweep():
            pass
        assert verbs.there() == "a5 a6"


class TestStirred:
    """Those who wait for a message of the queue should look again."""

    def test_an_ack_that_frees_the_next(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        lines.ack(*lines.claim(1))
        assert lines.stirred == {"q"}

    def test_an_ack_by_the_id_alone(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        lines.ack(Receipt(head.id))
        assert lines.stirred == {"q"}
        assert lines.take() == "a2"

    def test_one_that_frees_a_delayed_one(self, verbs: LineVerbs) -> None:
        """It is due at an instant that no one was told before."""
        verbs.create_fifo(delay_ms=100)
        verbs.put("a1")
        verbs.now += 50
        verbs.put("a2")
        verbs.now += 50
        verbs.ack(*verbs.claim(1))
        assert verbs.stirred == {"q"}
        assert verbs.next_due() == verbs.now + 50

    def test_one_in_a_lost_unit_has_freed_nothing(self, lines: LineVerbs) -> None:
        lines.put("a1 a2")
        [head] = lines.claim(1)
        before = lines.peek()

        def lose() -> None:
            with lines.unit() as unit:
                assert unit.ack([Receipt(head.id)], lines.now) == [True]
                assert [message.body for message in unit.claim("q", 1, lines.now, None).messages] == [b"a2"]
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        assert lines.peek() == before
        assert lines.take() == ""


class TestInOneUnit:
    def test_each_verb_sees_what_those_before_it_have_done(self, lines: LineVerbs) -> None:
        now = lines.now
        with lines.unit() as unit:
            unit.send("q", [draft("a1"), draft("a2")], now)
            [head] = unit.claim("q", 1, now, None).messages
            assert unit.claim("q", 1, now, None).messages == []
            unit.send("q", [draft("a3")], now)
            assert unit.ack([Receipt(head.id, head.claim)], now) == [True]
            assert [message.body for message in unit.claim("q", 5, now, None).messages] == [b"a2", b"a3"]
            unit.send("q", [draft("a4")], now)
        assert lines.take() == ""
        lines.now += 1_000
        assert lines.take() == "a2 a3 a4"

    def test_several_lines_are_freed_by_one_ack(self, lines: LineVerbs) -> None:
        lines.put("a1 b1 c1 a2 b2 c2")
        heads = [lines.claim(1)[0] for _ in range(2)]
        lines.ack(*heads)
        assert lines.take() == "c1 c2 a2 b2"

    def test_a_whole_line_is_acked_in_any_order(self, lines: LineVerbs) -> None:
        lines.put("a1 a2 a3 a4")
        first, second, third = lines.claim(3)
        assert lines.ack(third, first, second) == [True] * 3
        assert lines.take() == "a4"
