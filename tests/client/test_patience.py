"""What is tried again, for how long, and what is not."""

from __future__ import annotations

import socket
import threading

import pytest

from penstock.client import (
    Client,
    Patience,
    Refused,
    SentCounts,
    ServerFailed,
    ShipmentRef,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from penstock.client.address import Lost
from penstock.client.patience import Tries
from tests.client.test_transport import answer, listen  # noqa: F401

QUICK = Patience(60, first_pause_s=0.001, longest_pause_s=0.01)
AWAY = Unreachable("away", sent=False)
LOST = Unreachable("lost", sent=True)
BUSY = Unavailable("busy", 7)
BROKEN = ServerFailed("oh", 500)
PROXY = ServerFailed("no upstream", 502)


@pytest.mark.parametrize("error", [AWAY, LOST, BUSY, PROXY], ids=str)
def test_a_repeatable_request_is_tried_again(error):
    assert Tries(Patience(60), repeatable=True, now=0).pause_after(error, 1) > 0


@pytest.mark.parametrize("error", [LOST, BUSY, PROXY], ids=str)
def test_another_is_not_where_it_may_have_been_carried_out(error):
    with pytest.raises(type(error), match=str(error)):
        Tries(Patience(60), repeatable=False, now=0).pause_after(error, 1)


def test_any_request_that_did_not_arrive_is_tried_again():
    assert Tries(Patience(60), repeatable=False, now=0).pause_after(AWAY, 1) > 0


@pytest.mark.parametrize("error", [BROKEN, UnexpectedAnswer("hm"), Refused("no", 400)], ids=str)
def test_what_trying_again_cannot_mend_is_raised_at_once(error):
    with pytest.raises(type(error)):
        Tries(Patience(60), repeatable=True, now=0).pause_after(error, 1)


def test_without_patience_there_is_one_try():
    with pytest.raises(Unreachable, match=r"^away$"):
        Tries(Patience(), repeatable=True, now=0).pause_after(AWAY, 0)


def test_pauses_grow_to_their_limit_and_honour_the_server():
    tries = Tries(Patience(1_000_000), repeatable=True, now=0)
    pauses = [tries.pause_after(AWAY, 0) for _ in range(20)]
    assert 0.05 <= pauses[0] <= 0.1
    assert 2.5 <= pauses[-1] <= 5
    assert 7 < tries.pause_after(BUSY, 0) <= 12
    assert 60 < tries.pause_after(Unavailable("for long", 999_999), 0) <= 65


def test_patience_has_an_end():
    tries = Tries(Patience(10), repeatable=True, now=100)
    tries.pause_after(Unreachable("away", sent=False), 101)
    with pytest.raises(Unreachable, match="away; tried 2 times in 10 s"):
        tries.pause_after(Unreachable("away", sent=False), 110)


def test_an_earlier_try_may_have_arrived_although_the_last_did_not():
    tries = Tries(Patience(10), repeatable=True, now=0)
    tries.pause_after(Unreachable("lost", sent=True), 1)
    with pytest.raises(Unreachable) as caught:
        tries.pause_after(Unreachable("away", sent=False), 10)
    assert caught.value.sent


def test_a_kept_connection_that_broke_is_replaced_once_and_without_patience():
    tries = Tries(Patience(), repeatable=True, now=0)
    assert tries.pause_after(Lost("lost", sent=True, kept=True), 1) == 0
    with pytest.raises(Lost):
        tries.pause_after(Lost("lost", sent=True, kept=True), 1)


def test_what_went_out_on_the_broken_connection_may_have_arrived():
    tries = Tries(Patience(), repeatable=True, now=0)
    tries.pause_after(Lost("lost", sent=True, kept=True), 1)
    with pytest.raises(Unreachable) as caught:
        tries.pause_after(Unreachable("away", sent=False), 1)
    assert caught.value.sent


@pytest.mark.parametrize(("repeatable", "kept"), [(False, True), (True, False)])
def test_no_other_request_and_no_other_connection_is_tried_again(repeatable, kept):
    with pytest.raises(Lost):
        Tries(Patience(), repeatable=repeatable, now=0).pause_after(Lost("lost", sent=True, kept=kept), 1)


def test_the_caller_sees_only_the_answer(listen, connect):  # noqa: F811
    """503 with a time to wait, then a lost connection, then a proxy without its server, then the answer."""
    busy = answer(503, b'{"error": "busy"}', b"Retry-After: 0", b"Connection: close")
    listener = listen([busy], [b""], [answer(502, b"<html>", b"Connection: close")], [answer(200)])
    with connect(listener.url, patience=QUICK) as client:
        assert list(client.queues()) == []
    assert len(listener.requests) == 4


def test_a_send_with_a_key_is_repeated_and_one_without_is_not(listen, connect):  # noqa: F811
    counts = b'{"count": 1, "stored": 1, "repeated": true}'
    listener = listen([b""], [answer(200, counts, b"Connection: close")], [b""])
    with connect(listener.url, patience=QUICK) as client:
        assert client.send_once("jobs", ["a"], "k") == SentCounts(1, 1, repeated=True)
        with pytest.raises(Unreachable) as caught:
            client.send_lines("jobs", ["a"])
        assert caught.value.sent
    assert len(listener.requests) == 3


def test_it_waits_for_a_server_that_comes_back(serve, connect):
    first = serve()
    with connect(first.url, patience=QUICK) as client:
        client.create_queue("jobs")
        first.kill()
        sent = []
        sender = threading.Thread(target=lambda: sent.append(client.send_once("jobs", ["a"], "k")))
        sender.start()
        with first.kept_port() as port:
            serve(port=port)
        sender.join()
        assert sent == [SentCounts(1, 1, repeated=False)]
        assert client.send_once("jobs", ["a"], "k").repeated
        assert client.claim_shipment(ShipmentRef("jobs", "lake", 1)).messages == 1


def test_patience_ends_where_no_server_is(connect):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with (
        connect(url, patience=Patience(0.02, first_pause_s=0.001)) as client,
        pytest.raises(Unreachable, match=r"tried \d+ times in 0\.02 s"),
    ):
        client.queue("jobs")


def test_a_client_may_be_less_patient_for_a_while(server):
    with Client(server.url, patience=QUICK) as client:
        hasty = client.with_patience(Patience())
        assert (hasty.patience, hasty.url) == (Patience(), client.url)
        client.create_queue("jobs")
        assert hasty.queue("jobs").name == "jobs"
        assert len(client._pool._idle) == 1
