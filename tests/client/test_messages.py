"""Messages through the client."""

from __future__ import annotations

import pytest

from penstock.client import Draft, InvalidRequest, SendConflict, SentCounts, TooLarge


@pytest.fixture(autouse=True)
def jobs(client):
    client.create_queue("jobs")


@pytest.mark.parametrize(
    "body",
    [b"", b"text", "ä€\U0001f600".encode(), b"\xff\xfe", b"\0\0", b'{"a": [1]}', "\ufeffbom\r\n".encode()],
)
def test_a_body_comes_back_byte_for_byte(client, body):
    client.send("jobs", body)
    [message] = client.claim("jobs")
    assert message.body == body


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"a": 1, "ä": [None, True, 1.5]}, '{"a":1,"ä":[null,true,1.5]}'),
        ([1, "two", {}], '[1,"two",{}]'),
        (7, "7"),
        (0.25, "0.25"),
        (True, "true"),
        (None, "null"),
        ({"half": "\ud800"}, '{"half":"\\ud800"}'),
    ],
)
def test_a_json_value_is_sent_as_json(client, body, sent):
    client.send("jobs", body)
    client.send_many("jobs", [body, Draft(body, content_type="application/x-own")])
    messages = client.claim("jobs", limit=3)
    assert [message.text for message in messages] == [sent] * 3
    assert [message.json for message in messages] == [body] * 3
    kinds = [message.content_type for message in messages]
    assert kinds == ["application/json", "application/json", "application/x-own"]


def test_bytes_and_text_have_the_content_type_they_are_given(client):
    client.send_many("jobs", ['{"a": 1}', b"[]", bytearray(b"{}"), memoryview(b"1")])
    messages = client.claim("jobs", limit=4)
    assert [message.content_type for message in messages] == [None] * 4
    assert [message.json for message in messages] == [{"a": 1}, [], {}, 1]


@pytest.mark.parametrize("body", [object(), {1, 2}, (1, 2), print])
def test_what_cannot_be_a_body_is_refused_with_what_can(client, body):
    with pytest.raises(InvalidRequest, match=f"a body is bytes, str, or a JSON value .* not {type(body).__name__}"):
        client.send("jobs", body)
    assert client.queue("jobs").count.total == 0


@pytest.mark.parametrize("body", [{"a": {1}}, [float("nan")], {"a": float("inf")}, {(1, 2): 3}])
def test_a_value_that_json_cannot_say_is_refused(client, body):
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        client.send("jobs", body)


@pytest.mark.parametrize("messages", ["text", b"bytes", {"a": 1}, Draft("one")])
def test_send_many_does_not_take_one_for_many(client, messages):
    with pytest.raises(InvalidRequest, match="a list of messages"):
        client.send_many("jobs", messages)


def test_a_body_that_is_not_json_says_so(client):
    client.send_many("jobs", ["{", b"\xff"])
    for message in client.claim("jobs", limit=2):
        with pytest.raises(ValueError, match=r"Expecting|decode"):
            _ = message.json


def test_the_largest_body_fits_whatever_its_bytes(client):
    for body in (b"a" * 2**20, b"\0" * 2**20, b"\xff" * 2**20):
        client.send("jobs", body)
        [message] = client.claim("jobs")
        assert message.body == body


def test_a_larger_body_is_refused_and_the_client_goes_on(client):
    with pytest.raises(TooLarge):
        client.send("jobs", b"a" * (2**20 + 1))
    with pytest.raises(TooLarge):
        client.send("jobs", b"a" * 2**25)
    client.send("jobs", "small")


def test_everything_about_a_message_arrives(client):
    message_id = client.send("jobs", "ä", content_type="text/plain", attributes={"k": "v"})
    [message] = client.claim("jobs", hold_ms=5_000)
    assert (message.id, message.queue, message.text) == (message_id, "jobs", "ä")
    assert (message.content_type, message.attributes) == ("text/plain", {"k": "v"})
    assert (message.receives, message.ready_at >= message.sent_at + 5_000) == (1, True)
    assert message.receipt


def test_send_many_keeps_the_order(client):
    sent = client.send_many("jobs", ["a", b"b", Draft("c", attributes={"n": "3"})])
    messages = client.claim("jobs", limit=10)
    assert [message.id for message in messages] == [one.id for one in sent]
    assert [message.body for message in messages] == [b"a", b"b", b"c"]
    assert all(one.stored for one in sent)


def test_nothing_to_do_asks_nothing_of_the_server(client):
    assert client.send_many("no such queue", []) == []
    assert client.ack("no such queue", []) == []


def test_a_twin_is_not_stored(client):
    client.create_queue("unique", dedup="send")
    first, second = client.send_many("unique", ["same"]) + client.send_many("unique", ["same"])
    assert (first.id, first.stored, second.id, second.stored) == (second.id, True, first.id, False)


def test_text_that_is_no_unicode_is_not_sent(client):
    with pytest.raises(InvalidRequest, match="UTF-8"):
        client.send("jobs", "\ud800")
    with pytest.raises(InvalidRequest, match="JSON"):
        client.send("jobs", "x", attributes={"k": "\ud800"})


def test_a_delayed_message_waits(client, server):
    client.send("jobs", "later", delay_ms=60_000)
    assert client.claim("jobs") == []
    server.clock.advance(61)
    assert [message.text for message in client.claim("jobs")] == ["later"]


def test_a_claim_waits_for_its_time_and_no_longer(client):
    assert client.claim("jobs", wait_ms=50) == []


def test_ack_finishes_once(client):
    client.send_many("jobs", ["a", "b"])
    messages = client.claim("jobs", limit=2)
    assert client.ack("jobs", messages) == [True, True]
    assert client.ack("jobs", [messages[0].receipt, messages[1].id]) == [False, False]
    assert client.queue("jobs").count.total == 0


def test_one_receipt_needs_no_list(client):
    client.send_many("jobs", ["a", "b"])
    first, second = client.claim("jobs", limit=2)
    assert client.ack("jobs", first) == [True]
    assert client.ack("jobs", second.receipt) == [True]


def test_renew_holds_for_longer(client, server):
    client.send("jobs", "a")
    [message] = client.claim("jobs", hold_ms=20_000)
    assert client.renew("jobs", message, hold_ms=600_000) == [True]
    server.clock.advance(30)
    assert client.claim("jobs") == []
    assert client.ack("jobs", message) == [True]


def test_a_receipt_whose_claim_has_ended_does_nothing(client, server):
    client.send("jobs", "a")
    [stale] = client.claim("jobs", hold_ms=1_000)
    server.clock.advance(2)
    [message] = client.claim("jobs")
    assert client.ack("jobs", stale) == [False]
    assert client.renew("jobs", stale, hold_ms=1_000) == [False]
    assert client.release("jobs", stale) == [False]
    assert client.ack("jobs", message) == [True]


def test_release_makes_ready(client):
    client.send("jobs", "a")
    [message] = client.claim("jobs")
    assert client.release("jobs", message) == [True]
    [again] = client.claim("jobs")
    assert (again.id, again.receives) == (message.id, 2)


def test_release_with_a_delay(client, server):
    client.send("jobs", "a")
    [message] = client.claim("jobs")
    assert client.release("jobs", message, delay_ms=60_000) == [True]
    assert (client.queue("jobs").count.delayed, client.claim("jobs")) == (1, [])
    server.clock.advance(60)
    [again] = client.claim("jobs")
    assert (again.id, again.receives) == (message.id, 2)


def test_peek_claims_nothing_and_goes_on_after_its_end(client):
    client.send_many("jobs", ["a", "b", "c"])
    first = client.peek("jobs", limit=2)
    second = client.peek("jobs", limit=2, after=first.after)
    assert [message.text for message in first.messages + second.messages] == ["a", "b", "c"]
    assert client.peek("jobs", after=second.after).messages == []
    assert client.queue("jobs").count.ready == 3


def test_purge_says_how_many(client):
    client.send_many("jobs", ["a", "b", "c"])
    client.claim("jobs")
    assert client.purge("jobs") == 3
    assert client.queue("jobs").count.total == 0


def test_a_send_with_a_key_is_stored_once(client):
    client.update_queue("jobs", dedup="send")
    assert client.send_once("jobs", ["a", Draft("b", attributes={"k": "v"}), "a"], "key") == SentCounts(3, 2)
    assert client.send_once("jobs", ["a", Draft("b", attributes={"k": "v"}), "a"], "key") == SentCounts(3, 2, True)
    with pytest.raises(SendConflict) as caught:
        client.send_once("jobs", ["other"], "key")
    assert caught.value.status == 409
    assert client.send_once("jobs", [], "nothing") == SentCounts(0, 0)
    assert client.queue("jobs").count.total == 2


def test_json_lines(client):
    assert client.send_lines("jobs", ["a", {"n": 1}, Draft(b"\xff")]) == SentCounts(3, 3)
    assert client.send_lines("jobs", b'{"body": "x"}\n\n{"body": "y"}\n', "k") == SentCounts(2, 2)
    assert client.send_lines("jobs", b'{"body": "x"}\n\n{"body": "y"}\n', "k").repeated
    assert client.send_lines("jobs", b"\n") == client.send_lines("jobs", []) == SentCounts(0, 0)
    found = client.peek("jobs").messages
    assert [message.body for message in found] == [b"a", b'{"n":1}', b"\xff", b"x", b"y"]
    assert found[1].content_type == "application/json"


@pytest.mark.parametrize("key", ["", "ä", "a\nb", "x" * 256])
def test_a_key_that_no_header_can_carry_is_not_sent(client, key):
    with pytest.raises(InvalidRequest, match="idempotency key"):
        client.send_once("jobs", ["a"], key)


@pytest.mark.parametrize("messages", ["one", b"one", {"n": 1}, Draft("one")])
def test_one_message_is_not_a_list_of_messages(client, messages):
    with pytest.raises(InvalidRequest, match="one message is for send"):
        client.send_once("jobs", messages, "k")
