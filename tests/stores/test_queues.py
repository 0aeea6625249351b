from __future__ import annotations

import pytest

from penstock.errors import DeadLetterQueueNotFound, QueueExists, QueueNotFound
from penstock.model import Dedup, Draft, LedgerMode, Outcome, Queue, Receipt, Redrive, Settings

UNUSUAL = Settings(
    visibility_ms=1,
    retention_ms=2,
    delay_ms=3,
    dedup=Dedup.CLAIM,
    redrive=Redrive(4, "dead"),
    ledger=LedgerMode.BODIES,
)


def test_a_new_queue(verbs):
    verbs.create("dead")
    with verbs.unit() as unit:
        created = unit.create_queue("q", UNUSUAL, verbs.now)
    assert created == Queue(created.number, "q", verbs.now, UNUSUAL, verbs.now)
    assert verbs.find() == created
    assert verbs.seen() == []


def test_a_queue_of_defaults(verbs):
    assert verbs.create().settings == Settings()
    assert verbs.find().settings == Settings()


def test_an_unknown_queue_is_none(verbs):
    assert verbs.find("nowhere") is None


@pytest.mark.needs("any name")
def test_names_are_told_apart_by_every_sign(verbs):
    names = ["a", "A", "a.b", "a:b", "dedupq/a", "x" * 255, "ä", "a'b\"c"]
    for name in names:
        verbs.create(name)
    assert verbs.names() == names


def test_a_name_is_taken_once(verbs):
    created = verbs.create(delay_ms=5)
    with pytest.raises(QueueExists, match="'q'"):
        verbs.create(delay_ms=6, redrive=Redrive(1, "nowhere"))
    assert verbs.find() == created


def test_a_dead_letter_queue_must_be_there(verbs):
    with pytest.raises(DeadLetterQueueNotFound, match="'nowhere'"):
        verbs.create(redrive=Redrive(1, "nowhere"))
    with pytest.raises(DeadLetterQueueNotFound, match="'q'"):
        verbs.create(redrive=Redrive(1, "q"))
    assert verbs.find() is None
    created = verbs.create()
    with pytest.raises(DeadLetterQueueNotFound, match="'nowhere'"):
        verbs.update(redrive=Redrive(1, "nowhere"), delay_ms=5)
    assert verbs.find() == created


def test_an_update_replaces_all_settings(verbs):
    verbs.create("dead")
    created = verbs.create(visibility_ms=99)
    with verbs.unit() as unit:
        updated = unit.update_queue("q", UNUSUAL, 7)
    assert updated == Queue(created.number, "q", created.created_at, UNUSUAL, 7)
    assert verbs.find() == updated
    assert verbs.update().settings == Settings()


def test_a_queue_may_be_its_own_dead_letter_queue_after_an_update(verbs):
    verbs.create()
    assert verbs.update(redrive=Redrive(1, "q")).settings.redrive == Redrive(1, "q")


def test_an_update_leaves_messages_as_they_are(verbs):
    verbs.create()
    verbs.send(Draft(b"x", delay_ms=10), b"y")
    before = verbs.peek()
    verbs.update(delay_ms=99, visibility_ms=1, dedup=Dedup.SEND)
    assert verbs.peek() == before


def test_an_update_of_an_unknown_queue(verbs):
    with pytest.raises(QueueNotFound, match="'nowhere'"):
        verbs.update("nowhere", redrive=Redrive(1, "not there either"))


def test_in_creation_order_with_the_number_of_all(verbs):
    for name in ("c", "a", "b", "d"):
        verbs.create(name)
    verbs.delete("a")
    verbs.create("a")
    verbs.update("c", delay_ms=1)
    assert verbs.names() == ["c", "b", "d", "a"]
    with verbs.unit(write=False) as unit:
        page = unit.list_queues(1, 2)
        beyond = unit.list_queues(9, 2)
    assert page.total == beyond.total == 4
    assert [queue.name for queue in page.queues] == ["b", "d"]
    assert beyond.queues == []


def test_a_deleted_queue_is_gone_for_every_verb(verbs):
    verbs.create()
    deleted = verbs.find()
    [sent] = verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.delete() == deleted
    assert "q" in verbs.stirred
    assert verbs.find() is None
    assert verbs.names() == []
    assert verbs.next_due() is None
    for verb in (
        verbs.send,
        verbs.claim,
        verbs.release_all,
        verbs.purge,
        verbs.peek,
        verbs.count,
        verbs.tally,
    ):
        with pytest.raises(QueueNotFound, match="'q'"):
            verb()
    for receipt in (message, Receipt(sent.id), Receipt(sent.id, queue="q")):
        assert verbs.ack(receipt) == verbs.release(receipt) == verbs.renew(receipt, until=verbs.now) == [False]
    with pytest.raises(QueueNotFound, match="'q'"):
        verbs.delete()


def test_the_same_name_again_shares_nothing(verbs):
    first = verbs.create(dedup=Dedup.SEND, delay_ms=5)
    [old] = verbs.send(b"x")
    verbs.delete()
    second = verbs.create(dedup=Dedup.SEND)
    assert second.number != first.number
    assert second.settings.delay_ms == 0
    assert (verbs.tally().arrived, verbs.count().total, verbs.seen()) == (0, 0, [])
    [new] = verbs.send(b"x")
    assert new.stored
    assert new.id != old.id
    assert verbs.ack(Receipt(old.id, queue="q")) == [False]
    verbs.sweep()
    assert verbs.seen() == [b"x"]


@pytest.mark.needs("numbers")
def test_a_number_is_never_used_again(verbs):
    numbers = set()
    for _ in range(3):
        numbers.add(verbs.create().number)
        verbs.delete()
        verbs.sweep()
    assert len(numbers) == 3


@pytest.mark.needs("redrive")
def test_queues_lose_their_redrive_with_their_dead_letter_queue(verbs):
    verbs.create("dead")
    verbs.create("other dead")
    verbs.create("a", redrive=Redrive(1, "dead"), delay_ms=7)
    verbs.create("b", redrive=Redrive(1, "other dead"))
    verbs.delete("dead")
    assert verbs.find("a").settings == Settings(delay_ms=7)
    assert verbs.find("b").settings.redrive == Redrive(1, "other dead")
    verbs.create("dead")
    assert verbs.find("a").settings.redrive is None


def test_a_queue_that_is_its_own_dead_letter_queue_can_be_deleted(verbs):
    verbs.create()
    verbs.update(redrive=Redrive(1, "q"))
    assert verbs.delete().settings.redrive == Redrive(1, "q")
    assert verbs.find() is None


def test_the_ledger_still_names_a_deleted_queue(verbs):
    verbs.create()
    verbs.send(b"x", b"y")
    verbs.ack(*verbs.claim(limit=1))
    verbs.delete()
    assert verbs.outcomes() == [Outcome.PROCESSED]
    verbs.sweep()
    assert verbs.outcomes() == [Outcome.PROCESSED, Outcome.PURGED]


class TestByName:
    """In the order of their characters' numbers, whatever a database makes of letters."""

    NAMES = (
        "b",
        "a",
        "B",
        "a.b",
        "a-b",
        "a_b",
        "ab",
        "a:b",
        "A",
        "a/b",
        "Z",
        "0",
        "ä",
        "\U0001f600",
        "\uffee",
        "aB",
        "%",
        "a%",
    )

    @pytest.fixture
    def named(self, verbs):
        for name in self.NAMES:
            verbs.create(name)
        return verbs

    @pytest.mark.needs("any name")
    def test_all(self, named):
        assert named.page() == sorted(self.NAMES)

    @pytest.mark.needs("any name")
    @pytest.mark.parametrize("prefix", ["a", "A", "a.", "a_", "a%", "ab", "b", "%", "_", "\U0001f600", "nothing", "ä"])
    def test_those_that_begin_so(self, named, prefix):
        assert named.page(prefix) == sorted(name for name in self.NAMES if name.startswith(prefix))

    @pytest.mark.needs("any name")
    @pytest.mark.parametrize("after", ["", "a", "A", "a.b", "no such", "\U0010ffff", "a_", "\uffee"])
    def test_those_after_a_name(self, named, after):
        assert named.page(after=after) == sorted(name for name in self.NAMES if name > after)

    @pytest.mark.needs("any name")
    def test_page_by_page(self, named):
        found, page = [], named.page(limit=3)
        while page:
            assert len(page) <= 3
            found += page
            page = named.page(after=page[-1], limit=3)
        assert found == sorted(self.NAMES)

    @pytest.mark.needs("any name")
    def test_those_that_begin_so_page_by_page(self, named):
        found, page = [], named.page("a", limit=2)
        while page:
            found += page
            page = named.page("a", page[-1], 2)
        assert found == sorted(name for name in self.NAMES if name.startswith("a"))

    def test_after_a_name_that_does_not_begin_so(self, verbs):
        for name in ("aa", "ab", "ba", "bb", "ca"):
            verbs.create(name)
        assert verbs.page("b", after="ab") == ["ba", "bb"]
        assert verbs.page("b", after="bb") == verbs.page("b", after="ca") == []

    def test_in_plain_letters(self, verbs):
        for name in ("b", "a", "ab", "a-b", "a.b", "aa"):
            verbs.create(name)
        assert verbs.page() == ["a", "a-b", "a.b", "aa", "ab", "b"]
        assert verbs.page("a", limit=3) == ["a", "a-b", "a.b"]
        assert verbs.page("a", after="a.b") == ["aa", "ab"]

    def test_none_of_those_that_are_gone(self, verbs):
        for name in ("a", "b", "c"):
            verbs.create(name)
        verbs.delete("b")
        assert verbs.page() == ["a", "c"]
        verbs.create("b")
        assert verbs.page() == ["a", "b", "c"]

    def test_with_all_that_is_known_of_them(self, verbs):
        created = verbs.create(delay_ms=7)
        with verbs.unit(write=False) as unit:
            assert unit.page_queues("", "", 10) == [created]

    def test_beyond_what_any_database_holds(self, verbs):
        for name in ("a", "b"):
            verbs.create(name)
        assert verbs.page("\0") == verbs.page("a\0") == []
        assert verbs.page(after="\0") == ["a", "b"]
        assert verbs.page(after="a\0") == ["b"]

    def test_none(self, verbs):
        assert verbs.page() == []
        verbs.create()
        assert verbs.page(limit=0) == []


@pytest.mark.needs("redrive")
class TestDeadLetterSources:
    @pytest.fixture
    def dead(self, verbs):
        """Four queues send their dead letters to "dead", and one to another."""
        verbs.create("dead")
        verbs.create("other")
        for name in ("c", "a", "B"):
            verbs.create(name, redrive=Redrive(1, "dead"))
        verbs.create("b", redrive=Redrive(3, "other"))
        verbs.update("other", redrive=Redrive(2, "dead"))
        return verbs

    def test_by_name(self, dead):
        assert dead.sources("dead") == ["B", "a", "c", "other"]
        assert dead.sources("other") == ["b"]
        assert dead.sources("a") == []

    def test_page_by_page(self, dead):
        assert dead.sources("dead", limit=2) == ["B", "a"]
        assert dead.sources("dead", after="a", limit=2) == ["c", "other"]
        assert dead.sources("dead", after="other", limit=2) == []
        assert dead.sources("dead", after="bb") == dead.sources("dead", after="a\0") == ["c", "other"]

    def test_its_own(self, verbs):
        verbs.create()
        verbs.update(redrive=Redrive(1, "q"))
        assert verbs.sources("q") == ["q"]

    def test_as_they_are_now(self, dead):
        dead.update("a")
        dead.delete("c")
        dead.update("b", redrive=Redrive(1, "dead"))
        assert dead.sources("dead") == ["B", "b", "other"]

    def test_after_it_was_made_again(self, dead):
        dead.delete("dead")
        dead.create("dead")
        assert dead.sources("dead") == []

    def test_an_unknown_queue(self, verbs):
        with pytest.raises(QueueNotFound, match="'nowhere'"):
            verbs.sources("nowhere")
