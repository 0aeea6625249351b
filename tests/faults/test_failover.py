"""A replicated database fails over under load: the servers find the node that has taken over, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from devtools.databases import mariadb_connection
from devtools.replication import GaleraCluster, GaleraNode, PostgresPair
from penstock.clock import system_clock
from penstock.errors import StoreBusy, StoreUnavailable
from penstock.model import Draft, SentOnce, Settings
from penstock.stores import open_store
from penstock.stores.sql.engines import postgresql_pipeline
from tests.databases import required
from tests.faults.crowd import Crowd, opened, peek_all, running
from tests.servers import ServerProcess
from tests.talk import Talk
from tests.waiting import wait_until

# Those whose commit waits for a standby.
WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
CANCEL = f"SELECT pg_cancel_backend(pid) {WAITING}".encode()


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with required():
        pair = PostgresPair()
    with pair:
        yield pair


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[GaleraCluster]:
    with required():
        cluster = GaleraCluster()
    with cluster:
        yield cluster


@pytest.fixture
def galera(three_nodes: GaleraCluster) -> Iterator[GaleraCluster]:
    """With all of its nodes, whatever a test has done to them."""
    yield three_nodes
    for node in three_nodes.nodes:
        if node._process is None:
            node.start()


@pytest.fixture
def whole(pair: PostgresPair) -> Iterator[PostgresPair]:
    """With a standby, whatever a test has done to it."""
    yield pair
    for node in (pair.primary, pair.standby):
        if node._process is not None:
            node.resume()
    if pair.standby._process is None:
        pair.rejoin()


@contextmanager
def at_work(crowd: Crowd) -> Iterator[None]:
    crowd.start(senders=6, claimers=6)
    try:
        yield
    finally:
        crowd.stop()


def served_again(crowd: Crowd, count: int = 30) -> None:
    """Sends and acks get through, each so often."""
    sent, acked = len(crowd.sent), len(crowd.acked)
    wait_until(lambda: crowd.trouble or (len(crowd.sent) > sent + count and len(crowd.acked) > acked + count))


def test_a_standby_takes_over_twice_and_nothing_is_lost(whole: PostgresPair, tmp_path: Path) -> None:
    url = whole.new_url()
    with running(tmp_path, url, url) as servers:
        before = [server.process.pid for server in servers]
        crowd = Crowd([server.url for server in servers])
        crowd.create()
        with at_work(crowd):
            for _ in range(2):
                served_again(crowd)
                refusals = crowd.refusals
                whole.primary.kill()
                wait_until(lambda refusals=refusals: crowd.refusals > refusals)
                whole.promote()
                served_again(crowd)
                whole.rejoin()
        assert [server.process.poll() for server in servers] == [None, None]
        assert [server.process.pid for server in servers] == before
        crowd.check(url)
        for server in servers:
            text = server.log.read_text()
            assert "Traceback" not in text
            assert "pen%2Fst%40ck" not in text


def test_word_from_another_server_comes_by_way_of_the_new_primary(whole: PostgresPair, tmp_path: Path) -> None:
    url = whole.new_url()
    with (
        running(tmp_path, url, url) as [one, two],
        Talk(one.url, timeout=100) as talk,
        Talk(two.url, timeout=100) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        assert talk("PUT", "/v1/queues/q").status == 201
        waiting = pool.submit(talk, "POST", "/v1/queues/q/claim", {"wait_ms": 60_000})
        wait_until(lambda: one.waiting_claims() == 1)
        whole.primary.kill()
        whole.promote()
        message = {"messages": [{"body": "x"}]}
        wait_until(lambda: other("POST", "/v1/queues/q/messages", message).status == 201)
        assert [claimed["body"] for claimed in waiting.result().json["messages"]] == ["x"]


def test_a_commit_that_was_not_waited_for_is_not_acknowledged(whole: PostgresPair) -> None:
    """PostgreSQL answers COMMIT, with a warning, to one who is told not to wait for the standby any longer."""
    with opened(whole.new_url()) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
        whole.standby.pause()

        def send() -> None:
            with store.unit() as unit:
                unit.send("q", [Draft(b"in doubt")], 1)

        for begin in (send, lambda: express(store)):
            with ThreadPoolExecutor(1) as pool, whole.primary.superuser() as superuser:
                sending = pool.submit(begin)
                wait_until(lambda superuser=superuser: superuser.execute(CANCEL).fetchall())
                with pytest.raises(StoreUnavailable, match="its standby may not have"):
                    sending.result()
            with store.unit(write=False) as unit:  # so that the queue is known by heart
                assert unit.find_queue("q") is not None


def express(store: object) -> None:
    sending = store.begin_sends([("q", [Draft(b"in doubt")])], 1)  # type: ignore[attr-defined]
    assert sending is not None
    while not sending.go_on():
        threading.Event().wait(0.01)
    sending.end()


def test_without_its_standby_the_primary_acknowledges_nothing(whole: PostgresPair, tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "--store", whole.new_url(), "--store-timeout-s", "1")
    with Talk(server.url, timeout=100) as talk:
        assert talk("PUT", "/v1/queues/q").status == 201
        whole.standby.pause()
        reply = talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "x"}]})
        assert (reply.status, "Retry-After" in reply.headers) == (503, True)
        whole.standby.resume()
        wait_until(lambda: talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "y"}]}).status == 201)
    server.stop()


def test_a_primary_that_lives_on_acknowledges_nothing_more(whole: PostgresPair) -> None:
    """The one that was promoted is not a standby of it any more."""
    with opened(whole.new_url()) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
            unit.send("q", [Draft(b"before")], 1)
        old = whole.primary
        whole.promote()

        def send() -> None:
            with store.unit() as unit:
                unit.send("q", [Draft(b"lost")], 1)

        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(send)
            with old.superuser() as superuser:
                wait_until(lambda: superuser.execute(f"SELECT 1 {WAITING}".encode()).fetchall())
            assert not sending.done()
            old.kill()
            with pytest.raises(StoreUnavailable):
                sending.result()
        with store.unit() as unit:
            unit.send("q", [Draft(b"after")], 1)
            assert peek_all(unit, "q") == [b"before", b"after"]


def test_what_the_standby_may_not_have_is_not_promised_by_those_who_find_it(whole: PostgresPair) -> None:
    """A primary that crashes and starts again shows what was committed there, although no one has waited for the
    standby."""
    with opened(whole.new_url()) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
        whole.standby.pause()
        now = system_clock()

        def send() -> SentOnce:
            with store.unit() as unit:
                return unit.messages.send_once("q", "key", b"digest", [Draft(b"x")], now)

        def is_waiting() -> bool:
            with whole.primary.superuser() as superuser:
                return bool(superuser.execute(f"SELECT 1 {WAITING}".encode()).fetchall())

        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(send)
            wait_until(is_waiting)
            whole.primary.kill()
            with pytest.raises(StoreUnavailable):
                sending.result()
            whole.primary.start()
            again = pool.submit(send)
            wait_until(is_waiting)
            assert not again.done()
            whole.standby.resume()
            assert again.result().repeated


def test_a_primary_that_hangs_is_given_up(whole: PostgresPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine still confirms what is sent, so that nothing else tells."""
    monkeypatch.setattr(postgresql_pipeline, "LONGEST_MS", 200)
    with opened(whole.new_url()) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
        hung = whole.primary
        hung.pause()
        whole.promote()

        def is_served() -> bool:
            try:
                with store.unit() as unit:
                    unit.send("q", [Draft(b"x")], 1)
            except StoreUnavailable:
                return False
            return True

        wait_until(is_served)
        hung.kill()


def test_a_cluster_that_loses_the_node_in_charge_loses_nothing(galera: GaleraCluster, tmp_path: Path) -> None:
    url = galera.new_url()
    one, two, three = galera.nodes
    # The second server would rather use another node.
    with running(tmp_path, galera.url_of(url, one, two, three), galera.url_of(url, two, three, one)) as servers:
        crowd = Crowd([server.url for server in servers])
        crowd.create()
        with at_work(crowd):
            served_again(crowd)
            lost, refusals = charged(galera, url), crowd.refusals
            lost.kill()
            wait_until(lambda: crowd.refusals > refusals)
            served_again(crowd)
            # It comes back, and is not in charge; then the one that is, is cut off from the others, and not from us.
            lost.start()
            served_again(crowd)
            cut_off = charged(galera, url)
            assert cut_off is not lost
            cut_off.isolate(True)
            wait_until(lambda: charged(galera, url) is not cut_off)
            served_again(crowd)
            cut_off.isolate(False)
            cut_off.await_answers()
            served_again(crowd)
        assert [server.process.poll() for server in servers] == [None, None]
        crowd.check(url)
        for server in servers:
            assert "Traceback" not in server.log.read_text()


def charged(galera: GaleraCluster, url: str) -> GaleraNode:
    return galera.in_charge(url, "SELECT node FROM node_in_charge")


def test_what_another_node_has_changed_is_tried_again(galera: GaleraCluster) -> None:
    """Such a conflict comes to light when a unit commits: nothing of it has happened then."""
    url = galera.new_url()
    with opened(url) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
            unit.send("q", [Draft(b"x")], 1)
        other = next(node for node in galera.nodes if node is not charged(galera, url))

        def claim_what_another_changes() -> None:
            with store.unit() as unit:
                assert unit.claim("q", 1, system_clock(), 60_000).messages
                with mariadb_connection(galera.url_of(url, other)) as connection, connection.cursor() as cursor:
                    # What was committed elsewhere may arrive here a moment later.
                    wait_until(lambda: cursor.execute("UPDATE message SET content_type = 'text/plain'") == 1)

        with pytest.raises(StoreBusy):
            claim_what_another_changes()
        with store.unit() as unit:
            [message] = unit.claim("q", 1, system_clock(), 60_000).messages
            assert (message.body, message.receives, message.content_type) == (b"x", 1, "text/plain")


def test_numbers_do_not_repeat_when_a_cluster_shrinks_and_grows(galera: GaleraCluster) -> None:
    """The step between them is the number of nodes, and changes under a connection that is open."""
    url = galera.new_url()
    seqs: list[int] = []
    with opened(url) as store:
        leaver = next(node for node in galera.nodes if node is not charged(galera, url))
        with store.raw() as raw:
            seqs += raw.engine.next_seqs(7)
        leaver.stop()
        wait_until(lambda: charged(galera, url).status("wsrep_cluster_size") == "2")
        for _ in range(3):
            with store.raw() as raw:
                seqs += raw.engine.next_seqs(7)
        leaver.start()
        for _ in range(3):
            with store.raw() as raw:
                seqs += raw.engine.next_seqs(7)
        with store.raw() as raw:
            assert raw.engine.last_seq() == seqs[-1]
    assert seqs == sorted(set(seqs))


def test_every_server_uses_the_node_in_charge(galera: GaleraCluster) -> None:
    url = galera.new_url()
    urls = [galera.url_of(url, *galera.nodes[turn:], *galera.nodes[:turn]) for turn in range(3)]
    with ThreadPoolExecutor(3) as pool:
        stores = list(pool.map(open_store, urls))
    try:
        assert len({store.secret for store in stores}) == 1
        ports = set()
        for store in stores:
            with store.raw(write=False) as raw:
                [(port,)] = raw.rows("SELECT @@port")
                ports.add(port)
        assert ports == {charged(galera, url).port}
    finally:
        for store in stores:
            store.close()
    alone = next(node for node in galera.nodes if node.port not in ports)
    with pytest.raises(StoreUnavailable, match="is in charge"):
        open_store(galera.url_of(url, alone))


def test_a_node_that_is_read_only_is_passed_over(galera: GaleraCluster) -> None:
    url = galera.new_url()
    first, *others = galera.nodes
    first.set_global("read_only = ON")
    try:
        with opened(url) as store, store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
        assert charged(galera, url) in others
    finally:
        first.set_global("read_only = OFF")
