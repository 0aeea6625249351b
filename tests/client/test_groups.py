"""Groups, dedup ids and attempts through the client, and workers that keep the order of a group."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from penstock.client import ClaimedMessage, Client, Draft, InvalidRequest, Patience, Retry, Unreachable, Worked
from penstock.client.work import GroupLines
from tests.client.test_work import Stop
from tests.waiting import wait_until

QUICK = Patience(60, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def line(client: Client) -> Client:
    client.create_queue("line", groups="fifo", dedup="window")
    return client


def texts(messages: list[ClaimedMessage]) -> list[str]:
    return [message.text for message in messages]


def test_a_group_and_a_dedup_id_of_one_message(line):
    first = line.send("line", "1", group="a", dedup_id="x")
    assert line.send("line", "2", group="a", dedup_id="x") == first
    line.send("line", "3", group="a")
    [message] = line.claim("line")
    assert (message.text, message.group, message.behind) == ("1", "a", False)
    assert message.sent_at <= message.first_claimed_at
    assert line.claim("line") == []
    head, behind = line.peek("line").messages
    assert (head.behind, behind.behind, behind.ready_at, behind.first_claimed_at) == (False, True, 0, None)


def test_groups_of_many_messages(line):
    drafts = [Draft("1", group="a"), Draft("2", group="b", dedup_id="x"), Draft("3", group="a"), Draft("4")]
    assert all(sent.stored for sent in line.send_many("line", drafts))
    assert line.send_lines("line", drafts).stored == 0
    assert [(message.text, message.group) for message in line.claim("line", 9)] == [
        ("1", "a"), ("3", "a"), ("2", "b"), ("4", None),
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["", "x" * 129, "a\nb", 7, "\ud800"])
def test_words_that_cannot_be_are_refused(line, word):
    for attempt in (
        lambda: line.send("line", "1", group=word),
        lambda: line.send("line", "1", dedup_id=word),
        lambda: line.claim("line", attempt=word),
    ):
        with pytest.raises(InvalidRequest):
            attempt()
    with pytest.raises(InvalidRequest, match="delay"):
        line.send("line", "1", group="a", delay_ms=5)


def test_an_attempt_gets_the_same_messages(line):
    line.send("line", "1", group="a")
    line.send("line", "2", group="a")
    first = line.claim("line", attempt="x")
    again = line.claim("line", attempt="x")
    assert [message.receipt for message in again] == [message.receipt for message in first]
    batch = line.arrow.claim("line", attempt="x")
    assert batch["receipt"].to_pylist() == [first[0].receipt]
    assert batch["group"].to_pylist() == ["a"]
    assert line.claim("line", attempt="y") == []


class Lossy(ThreadingHTTPServer):
    """In front of a server: the first answer to a claim that brings messages is lost on its way."""

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.behind = urlsplit(url).netloc
        self.lost: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Lossy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        server = http.client.HTTPConnection(self.server.behind)
        server.request("POST", self.path, body)
        answer = server.getresponse()
        told = answer.read()
        server.close()
        if not self.server.lost and b'"receipt"' in told:
            self.server.lost.append(told)
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def lossy(server) -> Iterator[Lossy]:
    proxy = Lossy(server.url)
    yield proxy
    proxy.stop()


def test_a_claim_with_an_attempt_is_repeated_and_one_without_is_not(line, lossy, connect):
    line.send_many("line", ["1", "2"])
    with connect(lossy.url, patience=QUICK) as patient:
        assert texts(patient.claim("line", attempt="x")) == ["1"]
        lossy.lost.clear()
        with pytest.raises(Unreachable) as caught:
            patient.claim("line")
        assert caught.value.sent
    assert line.queue("line").count.claimed == 2


def test_a_worker_whose_answer_was_lost_gets_it_again(line, lossy, connect):
    """Nothing has to run out: the messages are claimed for an hour."""
    line.send_many("line", [Draft("1", group="a"), Draft("2", group="a"), Draft("3", group="b")])
    seen: list[str] = []
    stop = Stop()

    def handle(message: ClaimedMessage) -> None:
        assert message.receives == 1
        seen.append(message.text)
        if len(seen) == 3:
            stop.set()

    with connect(lossy.url, patience=QUICK) as client:
        worked = client.work("line", handle, limit=2, hold_ms=3_600_000, wait_ms=50, stop=stop, signals=False)
    assert (len(lossy.lost), worked.acked) == (1, 3)
    assert [text for text in seen if text != "3"] == ["1", "2"]


# The order of a group


def worked_off(client: Client, handle: object, **options: object) -> Worked:
    return client.work("line", handle, until_empty=True, wait_ms=0, signals=False, **options)


def test_a_worker_handles_the_messages_of_a_group_one_after_another(line):
    line.send_many("line", [Draft({"n": number, "of": group}, group=group) for number in range(10) for group in "abc"])
    lock, running, seen = threading.Lock(), set(), {"a": [], "b": [], "c": []}

    def handle(message: ClaimedMessage) -> None:
        with lock:
            assert message.group not in running
            running.add(message.group)
        seen[message.group].append(message.json["n"])
        with lock:
            running.remove(message.group)

    assert worked_off(line, handle, concurrency=4, limit=20) == Worked(acked=30)
    assert seen == {group: list(range(10)) for group in "abc"}


def test_none_is_handled_after_one_that_was_released(line, server):
    line.send_many("line", [Draft(text, group="a") for text in "123"] + [Draft("other", group="b")])
    seen = []

    def handle(message: ClaimedMessage) -> None:
        seen.append(message.text)
        if seen.count("1") == 1 and message.text == "1":
            raise Retry(delay_ms=60_000)

    worked = worked_off(line, handle, limit=10)
    assert (worked, sorted(seen)) == (Worked(acked=1, released=1, returned=2), ["1", "other"])
    assert line.claim("line", 9) == []
    server.clock.advance(61)
    assert worked_off(line, handle, limit=10) == Worked(acked=3)
    assert seen[2:] == ["1", "2", "3"]


def test_a_stop_gives_back_what_waits_for_one_of_its_group(server, connect):
    with Client(server.url) as other, connect(server.url) as client:
        other.create_queue("line", groups="fifo")
        other.send_many("line", [Draft(text, group="a") for text in "123"])
        begun, go_on, stop, ended = threading.Event(), threading.Event(), Stop(), []

        def handle(_message: ClaimedMessage) -> None:
            begun.set()
            go_on.wait()

        def work() -> None:
            ended.append(client.work("line", handle, concurrency=2, limit=5, wait_ms=50, stop=stop, signals=False))

        working = threading.Thread(target=work)
        working.start()
        begun.wait()
        wait_until(lambda: other.queue("line").count.claimed == 3)
        stop.set()
        wait_until(lambda: other.queue("line").count.claimed == 1)
        go_on.set()
        working.join()
        assert ended == [Worked(acked=1, returned=2)]
        assert texts(other.claim("line", 9)) == ["2", "3"]


def test_where_a_group_is_only_a_word_its_messages_may_be_handled_at_once(client):
    client.create_queue("line")
    client.send_many("line", [Draft(text, group="a") for text in "12"])
    together = threading.Barrier(2)
    assert worked_off(client, lambda _message: together.wait(), concurrency=2, in_order=False) == Worked(acked=2)


def test_what_follows_in_a_line():
    def message(receipt: str, group: str | None = "a") -> ClaimedMessage:
        return ClaimedMessage(receipt, "line", b"", None, receipt=receipt, group=group)

    one, two, three, alone = message("1"), message("2"), message("3"), message("4", None)
    lines = GroupLines()
    assert lines.enter([one, two, alone, three]) == [one, alone]
    assert lines.leave(alone, True).handled == []
    assert lines.leave(three, True).handled == []
    assert lines.leave(one, True).handled == [two]
    assert lines.leave(one, False).given_back == []
    assert lines.leave(two, False).given_back == [three]
    # One that was given back says nothing of those that came later.
    assert lines.enter([one, two]) == [one]
    assert lines.leave(three, False).given_back == []
    assert lines.end() == [two]
    assert lines.leave(one, True).handled == []
