"""The checker of the campaign: for each rule a history that breaks it, and others like it that do not."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import soak
from soak import rules
from tests.soak.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


class TestLoss:
    def test_sent_and_never_seen_again(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.end()
        verdict = story.judge()
        [finding] = verdict.findings
        assert finding.startswith(f"{rules.LOST}: a-1, sent to q, was never received, and is not there at the end")
        assert '"op": "send"' in finding

    def test_received_never_acked_and_gone(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.end()
        assert story.broken() == {rules.LOST}

    def test_an_ack_that_was_told_to_have_done_nothing_explains_nothing(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (20, 21), done=False)
        story.end()
        assert story.broken() == {rules.LOST}

    def test_still_there(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.end(left="a-1")
        assert story.broken() == set()

    @pytest.mark.parametrize("outcome", ["ok", "perhaps"])
    def test_acked_or_perhaps_acked(self, story: Story, outcome: str) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6), outcome=outcome)
        story.end()
        assert story.broken() == set()

    @pytest.mark.parametrize("outcome", ["perhaps", "refused"])
    def test_never_promised(self, story: Story, outcome: str) -> None:
        story.send("a-1", (1, 2), outcome=outcome)
        story.end()
        assert story.broken() == set()

    def test_no_one_has_looked(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        assert story.broken() == set()

    def test_a_dead_letter_is_looked_for_in_its_queue(self, story: Story) -> None:
        story.queue("q", dead_letter_queue="dead", max_receives=1)
        story.send("a-1", (1, 2))
        story.end()  # the dead-letter queue was not looked at
        assert story.broken() == set()

    def test_not_even_in_the_dead_letter_queue(self, story: Story) -> None:
        story.queue("q", dead_letter_queue="dead", max_receives=1)
        story.send("a-1", (1, 2))
        story.end(queues="q dead")
        assert story.broken() == {rules.LOST}

    def test_moved_and_not_there(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.tell("move", (3, 4), target="r")
        story.end(queues="q r")
        assert story.broken() == {rules.LOST}

    def test_purged(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.tell("purge", (3, 4), outcome="perhaps")
        story.end()
        assert story.broken() == set()

    def test_a_twin_that_was_acked_does_not_stand_for_another(self, story: Story) -> None:
        story.queue("q", dedup="send")
        story.send("a-1", (1, 2), ids=["1"], stored=[True])
        story.claim("a-1", (3, 4), under="1")
        story.ack("a-1", (5, 6), under="1")
        story.send("a-1", (7, 8), ids=["2"], stored=[True])
        story.end()
        assert story.broken() == {rules.LOST}

    def test_a_twin_that_was_not_stored(self, story: Story) -> None:
        story.queue("q", dedup="send")
        story.send("a-1", (1, 2), ids=["1"], stored=[True])
        story.send("a-1", (3, 4), ids=["1"], stored=[False])
        story.claim("a-1", (5, 6), under="1")
        story.ack("a-1", (7, 8), under="1")
        story.end()
        assert story.broken() == set()

    def test_sent_again_with_its_key_and_answered_then(self, story: Story) -> None:
        story.send("a-1", (1, 2), outcome="perhaps", key="k")
        story.send("a-1", (3, 4), key="k")
        story.end()
        assert story.broken() == {rules.LOST}


class TestComingBack:
    def test_received_after_it_was_acked(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6))
        story.claim("a-1", (7, 8), "y")
        story.end()
        assert story.broken() == {rules.BACK}

    def test_there_at_the_end(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6))
        story.end(left="a-1")
        assert story.broken() == {rules.BACK}

    def test_by_an_api_without_receipts_that_says_nothing_of_each(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6), done=None)
        story.end(left="a-1")
        assert story.broken() == {rules.BACK}

    def test_a_receipt_may_have_been_stale(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4), receipt="r")
        story.ack("a-1", (25, 26), receipt="r", done=None)
        story.claim("a-1", (27, 28), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_its_claim_was_asked_for_before_the_ack_was_answered(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.claim("a-1", (15.5, 17), "y")
        story.ack("a-1", (15, 16))
        story.end()
        assert story.broken() == set()

    def test_an_ack_without_an_answer_promises_nothing(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6), outcome="perhaps")
        story.claim("a-1", (7, 8), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_acked_when_it_may_have_been_in_a_shipment(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4), hold_s=1)
        story.claim("a-1", (5.5, 8), "y", api="shipment", name="lake/1")
        story.ack("a-1", (5, 8), done=None)
        story.touch("release", "a-1", (9, 10), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_acked_after_its_shipment_was_released(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4), "y", api="shipment", name="lake/1")
        story.touch("release", "a-1", (5, 6), "y")
        story.claim("a-1", (7, 8))
        story.ack("a-1", (9, 10), done=None)
        story.end(left="a-1")
        assert story.broken() == {rules.BACK}

    def test_acked_where_it_no_longer_was(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.tell("move", (4, 5), target="r")
        story.ack("a-1", (6, 7), done=None)
        story.claim("a-1", (8, 9), "y", queue="r")
        story.ack("a-1", (8, 9), "y", queue="r")
        story.end(queues="q r")
        assert story.broken() == set()


class TestTwoClaims:
    def test_one_after_the_other(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.claim("a-1", (3, 4), "y")
        story.end(left="a-1")
        assert story.broken() == {rules.TWICE_CLAIMED}

    def test_at_the_same_time(self, story: Story) -> None:
        """Long polls: whichever was first, the other came too early."""
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 5), "x")
        story.claim("a-1", (2, 4), "y")
        story.end(left="a-1")
        assert story.broken() == {rules.TWICE_CLAIMED}

    def test_the_first_may_have_run_out(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.claim("a-1", (3, 11), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_the_order_of_two_is_not_known(self, story: Story) -> None:
        """If the second was made first, its short hold was over."""
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 9), "x")
        story.claim("a-1", (1, 3), "y", hold_s=2)
        story.end(left="a-1")
        assert story.broken() == set()

    @pytest.mark.parametrize("op", ["ack", "release"])
    @pytest.mark.parametrize("outcome", ["ok", "perhaps"])
    def test_it_was_or_may_have_been_ended(self, story: Story, op: str, outcome: str) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.touch(op, "a-1", (3, 6), "x", outcome=outcome)
        story.claim("a-1", (3, 5), "y")
        story.end(left="" if op == "ack" else "a-1")
        assert story.broken() == set()

    def test_an_end_that_did_nothing_ends_nothing(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.touch("release", "a-1", (3, 4), "z", done=False)
        story.claim("a-1", (5, 6), "y")
        story.end(left="a-1")
        assert story.broken() == {rules.TWICE_CLAIMED}

    def test_renewed(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", hold_s=3)
        story.touch("renew", "a-1", (3, 3.5), "x", hold_s=100)
        story.claim("a-1", (50, 51), "y")
        story.end(left="a-1")
        assert story.broken() == {rules.TWICE_CLAIMED}

    def test_renewed_for_less(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", hold_s=100)
        story.touch("renew", "a-1", (3, 3.5), "x", hold_s=1, outcome="perhaps")
        story.claim("a-1", (50, 51), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_a_renewal_that_may_not_have_happened(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", hold_s=3)
        story.touch("renew", "a-1", (3, 3.5), "x", hold_s=100, outcome="perhaps")
        story.claim("a-1", (50, 51), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_the_same_attempt(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", name="x/1")
        story.claim("a-1", (3, 4), "x", name="x/1")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_a_clock_that_was_set_ahead(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.tell("clock", (3, 3), "campaign", jump_s=3600)
        story.claim("a-1", (4, 5), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_a_clock_that_was_set_back(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.tell("clock", (3, 3), "campaign", jump_s=-3600)
        story.claim("a-1", (4, 5), "y")
        story.end(left="a-1")
        assert story.broken() == {rules.TWICE_CLAIMED}

    def test_all_claims_were_ended(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.tell("unclaim", (3, 4), outcome="perhaps")
        story.claim("a-1", (5, 6), "y")
        story.end(left="a-1")
        assert story.broken() == set()

    def test_within_what_the_servers_know_of_the_time(self, story: Story) -> None:
        story.tell("precision", (0, 0), "campaign", slack_s=7)
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x")
        story.claim("a-1", (4, 5), "y")
        story.end(left="a-1")
        assert story.broken() == set()


class TestReceipts:
    def test_a_stale_one_was_obeyed(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", receipt="1", hold_s=1)
        story.claim("a-1", (5, 6), "y", receipt="2", hold_s=1)
        story.ack("a-1", (7, 8), "x", receipt="1")
        story.end()
        assert story.broken() == {rules.STALE}

    def test_late_and_before_the_next_claim(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", receipt="1", hold_s=1)
        story.claim("a-1", (5, 9), "y", receipt="2", hold_s=1)
        story.ack("a-1", (7, 8), "x", receipt="1")
        story.end()
        assert story.broken() == set()

    def test_a_stale_one_while_its_holder_acks_it(self, story: Story) -> None:
        """To ack what is gone is done, in some APIs."""
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", receipt="1", hold_s=1)
        story.claim("a-1", (5, 6), "y", receipt="2", hold_s=1)
        story.ack("a-1", (7, 9), "x", receipt="1")
        story.ack("a-1", (8, 10), "y", receipt="2")
        story.end()
        assert story.broken() == set()

    def test_a_stale_one_that_did_nothing(self, story: Story) -> None:
        story.send("a-1", (0, 0))
        story.claim("a-1", (1, 2), "x", receipt="1", hold_s=1)
        story.claim("a-1", (5, 6), "y", receipt="2", hold_s=1)
        story.ack("a-1", (7, 8), "x", receipt="1", done=False)
        story.end(left="a-1")
        assert story.broken() == set()


class TestOrderOfAProducer:
    def tell(self, story: Story, first: str, second: str, receives: int = 1, **words: object) -> None:
        story.send("a-1", (1, 2), **words)
        story.send("a-2", (3, 4))
        story.claim(first, (5, 6), "x", receives=1)
        story.claim(second, (7, 8), "y", receives=receives)
        story.end(left="a-1 a-2")

    def test_in_order(self, story: Story) -> None:
        self.tell(story, "a-1", "a-2")
        assert story.broken() == set()

    def test_the_later_first(self, story: Story) -> None:
        self.tell(story, "a-2", "a-1")
        assert story.broken() == {rules.OVERTAKEN}

    def test_the_earlier_was_handed_out_before_in_an_answer_that_was_lost(self, story: Story) -> None:
        self.tell(story, "a-2", "a-1", receives=2)
        assert story.broken() == set()

    def test_the_earlier_was_claimed_by_an_attempt_that_was_made_again(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.send("a-2", (3, 4))
        story.tell("claim", (4, 5), "y", outcome="perhaps", messages=[], hold_s=10, name="y/1")
        story.claim("a-2", (5, 6), "x", receives=1)
        story.claim("a-1", (7, 8), "y", receives=1, name="y/1")
        story.end(left="a-1 a-2")
        assert story.broken() == set()

    def test_the_earlier_may_have_been_stored_later(self, story: Story) -> None:
        self.tell(story, "a-2", "a-1", outcome="perhaps")
        assert story.broken() == set()

    def test_the_earlier_was_delayed(self, story: Story) -> None:
        self.tell(story, "a-2", "a-1", delay_s=3)
        assert story.broken() == set()

    def test_in_a_queue_without_an_order(self, story: Story) -> None:
        story.queue("q", ordered=False)
        self.tell(story, "a-2", "a-1")
        assert story.broken() == set()

    def test_within_one_answer(self, story: Story) -> None:
        story.send("a-1 a-2", (1, 2))
        story.claim("a-2 a-1", (3, 4), receives=1)
        story.end(left="a-1 a-2")
        assert story.broken() == {rules.OVERTAKEN}

    def test_by_two_claims_of_which_either_may_have_been_first(self, story: Story) -> None:
        story.send("a-1 a-2", (1, 2))
        story.claim("a-2", (3, 5), "x", receives=1)
        story.claim("a-1", (4, 6), "y", receives=1)
        story.end(left="a-1 a-2")
        assert story.broken() == set()


class TestOrderOfAGroup:
    @pytest.fixture(autouse=True)
    def lines(self, story: Story) -> None:
        story.queue("q", groups="fifo")

    def send(self, story: Story, **words: object) -> None:
        story.send("a-1", (1, 2), group="g", **words)
        story.send("a-2", (3, 4), group="g")

    def test_while_the_first_is_held(self, story: Story) -> None:
        self.send(story)
        story.claim("a-1", (5, 6), "x")
        story.claim("a-2", (7, 8), "y")
        story.end(left="a-1 a-2")
        assert story.broken() == {rules.OUT_OF_LINE}

    def test_again_while_the_first_is_not_finished(self, story: Story) -> None:
        self.send(story)
        story.claim("a-1 a-2", (5, 6), "x", hold_s=1)
        story.claim("a-2", (9, 10), "y")
        story.end(left="a-1 a-2")
        assert story.broken() == {rules.OUT_OF_LINE}

    def test_both_in_one_claim(self, story: Story) -> None:
        self.send(story)
        story.claim("a-1 a-2", (5, 6), "x")
        story.end(left="a-1 a-2")
        assert story.broken() == set()

    def test_the_wrong_way_round_in_one_claim(self, story: Story) -> None:
        self.send(story)
        story.claim("a-2 a-1", (5, 6), "x")
        story.end(left="a-1 a-2")
        assert story.broken() == {rules.OUT_OF_LINE}

    @pytest.mark.parametrize("outcome", ["ok", "perhaps"])
    def test_when_the_first_may_be_finished(self, story: Story, outcome: str) -> None:
        self.send(story)
        story.claim("a-1", (5, 6), "x")
        story.ack("a-1", (7, 9), "x", outcome=outcome)
        story.claim("a-2", (7, 8), "y")
        story.end(left="a-2")
        assert story.broken() == set()

    def test_another_group(self, story: Story) -> None:
        story.send("a-1", (1, 2), group="g")
        story.send("a-2", (3, 4), group="h")
        story.claim("a-1", (5, 6), "x")
        story.claim("a-2", (7, 8), "y")
        story.end(left="a-1 a-2")
        assert story.broken() == set()

    def test_the_first_may_have_been_stored_later(self, story: Story) -> None:
        self.send(story, outcome="perhaps")
        story.claim("a-2", (7, 8), "y")
        story.end(left="a-1 a-2")
        assert story.broken() == set()

    def test_the_first_has_become_a_dead_letter(self, story: Story) -> None:
        story.queue("q", groups="fifo", dead_letter_queue="dead")
        self.send(story)
        story.claim("a-2", (7, 8), "y")
        story.claim("a-1", (9, 10), "x", queue="dead")
        story.ack("a-1", (11, 12), "x", queue="dead")
        story.end(left="a-2", queues="q dead")
        assert story.broken() == set()


class TestExistence:
    def test_a_body_that_no_one_has_sent(self, story: Story) -> None:
        story.claim("damaged:17", (1, 2))
        assert story.broken() == {rules.STRANGE}

    def test_refused_and_received(self, story: Story) -> None:
        story.send("a-1", (1, 2), outcome="refused")
        story.claim("a-1", (3, 4))
        story.end(left="a-1")
        assert story.broken() == {rules.REFUSED_BUT_STORED}

    def test_received_from_another_queue(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4), queue="r")
        assert story.broken() == {rules.ASTRAY}

    def test_moved_there(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.tell("move", (3, 4), target="r", outcome="perhaps")
        story.claim("a-1", (3, 4), queue="r")
        assert story.broken() == set()

    def test_under_two_ids(self, story: Story) -> None:
        story.send("a-1", (1, 2), key="k", outcome="perhaps")
        story.send("a-1", (3, 4), key="k")
        story.claim("a-1", (5, 6), under="1")
        story.claim("a-1", (5, 6), "y", under="2")
        assert story.broken() == {rules.TWICE_STORED}

    def test_twins(self, story: Story) -> None:
        story.queue("q", dedup="claim", ordered=False)
        story.send("a-1", (1, 2))
        story.send("a-1", (3, 4))
        story.claim("a-1", (5, 6), under="1")
        story.claim("a-1", (5, 6), "y", under="2")
        assert story.broken() == set()

    def test_one_id_for_two_messages(self, story: Story) -> None:
        story.send("a-1", (1, 2), ids=["1"])
        story.send("b-1", (1, 2))
        story.claim("b-1", (5, 6), under="1")
        assert story.broken() == {rules.ID_TWICE}

    def test_an_id_that_a_send_names_for_a_twin(self, story: Story) -> None:
        story.queue("q", dedup="send")
        story.send("a-1", (1, 2), ids=["1"], stored=[True])
        story.send("a-1", (1, 2), ids=["1"], stored=[False])
        assert story.broken() == set()

    def test_received_too_often(self, story: Story) -> None:
        story.queue("q", max_receives=3)
        story.send("a-1", (1, 2))
        story.claim("a-1", (5, 6), receives=4)
        assert story.broken() == {rules.TOO_OFTEN}

    def test_a_fault_of_the_server(self, story: Story) -> None:
        story.send("a-1", (1, 2), outcome="perhaps", status=500)
        assert story.broken() == {rules.FAULT}

    def test_not_now(self, story: Story) -> None:
        story.send("a-1", (1, 2), outcome="perhaps", status=503)
        assert story.broken() == set()


class TestAccounts:
    def tell(self, story: Story, *, arrived: int = 3, departed: int = 1, total: int = 2, outcome: str = "processed",
             receives: int = 1, rows: int = 1) -> None:  # fmt: skip
        """Two were sent for certain and one perhaps; one was acked, two are left."""
        story.send("a-1 a-2", (1, 2))
        story.send("a-3", (3, 4), outcome="perhaps")
        story.claim("a-1", (5, 6))
        story.ack("a-1", (7, 8))
        row = [1, "q", "id-a-1", outcome, receives]
        story.tell("ledger", (999, 999), "look", "", rows=[row] * rows)
        story.tell("count", (999, 999), "look", total=total, arrived=arrived, departed=departed)
        story.end(left="a-2 a-3", ledger=True)

    def test_that_add_up(self, story: Story) -> None:
        self.tell(story)
        assert story.broken() == set()

    @pytest.mark.parametrize(
        "wrong",
        [{"total": 3, "arrived": 4}, {"arrived": 4}, {"departed": 2}, {"departed": 0, "arrived": 2}],
        ids=["total", "arrived", "departed", "fewer departed than acked"],
    )
    def test_of_a_queue(self, story: Story, wrong: dict[str, int]) -> None:
        self.tell(story, **wrong)
        assert rules.TALLY in story.broken()

    def test_more_than_were_sent(self, story: Story) -> None:
        story.send("a-1", (1, 2), outcome="perhaps")
        story.tell("count", (9, 9), total=0, arrived=2, departed=2)
        assert story.broken() == {rules.TALLY}

    @pytest.mark.parametrize("wrong", [{"rows": 0}, {"rows": 2}, {"outcome": "expired"}, {"receives": 0}], ids=str)
    def test_of_the_ledger(self, story: Story, wrong: dict) -> None:
        self.tell(story, **wrong)
        assert story.broken() == {rules.LEDGER}

    def test_processed_although_no_one_has_acked(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6), done=False)
        story.tell("ledger", (9, 9), "look", "", rows=[[1, "q", "id-a-1", "processed", 1]])
        story.end(ledger=True)
        assert rules.LEDGER in story.broken()

    def test_in_the_ledger_and_still_there(self, story: Story) -> None:
        story.send("a-1", (1, 2))
        story.claim("a-1", (3, 4))
        story.ack("a-1", (5, 6), outcome="perhaps")
        story.tell("ledger", (9, 9), "look", "", rows=[[1, "q", "id-a-1", "processed", 1]])
        story.end(left="a-1", ledger=True)
        assert story.broken() == {rules.LEDGER}


def test_a_client_that_was_killed_may_have_done_what_it_had_begun(story: Story, tmp_path: Path) -> None:
    story.send("a-1", (1, 2))
    story.claim("a-1", (3, 4), "x")
    story.tell("ack", (5, None), "x", messages=[["a-1", "id-a-1", None]], outcome="perhaps")  # type: ignore[arg-type]
    story.end()
    assert story.broken() == set()


def test_a_long_history_is_judged_part_by_part(story: Story) -> None:
    for number in range(1, 100):
        story.send(f"p{number}-1", (1, 2), ids=[f"id-p{number}-1"])
    story.send("a-1", (1, 2), ids=["id-p7-1"])
    story.claim("a-1", (3, 4), under="id-p7-1")
    story.end(left=" ".join(f"p{number}-1" for number in range(2, 100)))
    verdict = story.judge(bucket_bytes=1_000)
    assert verdict.broken == {rules.LOST: 2, rules.ID_TWICE: 1}
    assert verdict.sent == 100


def test_many_findings_are_counted(story: Story) -> None:
    story.send(" ".join(f"a-{number}" for number in range(50)), (1, 2))
    story.end()
    verdict = story.judge()
    assert verdict.broken == {rules.LOST: 50}
    assert len(verdict.findings) == 11


@pytest.mark.parametrize("module", ["checker", "rules", "messages", "history"])
def test_it_is_written_apart_from_the_server(module: str) -> None:
    source = (Path(soak.__file__).parent / f"{module}.py").read_text()
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    own = {"soak.history", "soak.messages", "soak.rules"}
    assert {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names} <= own
