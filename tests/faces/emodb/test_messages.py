"""The document's dialogues about messages, for both services."""

from __future__ import annotations

import json

import pytest

from tests.faces.emodb.conftest import JSON, SUCCESS, Emo
from tests.servers import ThreadServer
from tests.talk import Talk


def test_the_example_of_the_document(emo: Emo) -> None:
    sent = emo.post("demo-app_provision-q/send", '{"provision":"TestCustomer"}')
    assert (sent.status, sent.json, sent.headers["Content-Type"]) == (200, SUCCESS, JSON)
    sent = emo.post("_sendbatch", '{"demo-app_provision-q":[{"provision":"Another"}]}')
    assert (sent.status, sent.json) == (200, SUCCESS)
    messages = emo.poll("demo-app_provision-q")
    assert [message["payload"] for message in messages] == [{"provision": "TestCustomer"}, {"provision": "Another"}]
    assert [sorted(message) for message in messages] == [["id", "payload"]] * 2
    assert emo.poll("demo-app_provision-q") == []
    emo.ack("demo-app_provision-q", messages)
    assert emo.size("demo-app_provision-q") == 0


@pytest.mark.parametrize(
    "text", ["null", "true", "false", "0", "-1.5e3", '"text"', '""', "[]", "{}", '[1,[{"a":null}]]']
)
def test_every_json_type_is_a_message(emo: Emo, text: str) -> None:
    emo.send("q", text)
    assert emo.payloads("q") == [json.loads(text)]


@pytest.mark.parametrize(
    "text",
    [
        '{"b": 1,  "a" :2}',
        '"\\u00e9 é \\/"',
        "1.000",
        "1E+2",
        '{"a":1,"a":2}',
        "123456789012345678901234567890",
        "1e999",
    ],
)
def test_a_message_is_served_as_the_bytes_that_came(emo: Emo, text: str) -> None:
    emo.post("q/send", f" {text}\n".encode())
    assert emo.get("q/peek").body.endswith(f'"payload":{text}}}]'.encode())
    assert emo.get("q/poll").body.endswith(f'"payload":{text}}}]'.encode())


def test_a_content_type_may_name_its_charset(emo: Emo) -> None:
    assert emo.post("q/send", "1", content_type="Application/JSON; charset=utf-8").status == 200


def test_a_batch_over_several_queues(emo: Emo) -> None:
    assert emo.post("_sendbatch", '{"a": [1, {"two": 2}], "b": ["x"], "none": []}').json == SUCCESS
    assert emo.payloads("a") == [1, {"two": 2}]
    assert emo.payloads("b") == ["x"]
    assert emo.payloads("none") == []
    assert emo.post("_sendbatch", "{}").json == SUCCESS


def test_a_batch_for_one_queue(emo: Emo) -> None:
    assert emo.post("q/sendbatch", '[1, [2], "three"]').json == SUCCESS
    assert emo.payloads("q") == [1, [2], "three"]
    assert emo.post("q/sendbatch", "[]").json == SUCCESS
    assert emo.post("q/sendbatch?partitioned=true", "[4]").json == SUCCESS
    assert emo.payloads("q") == [4]


def test_a_large_batch(emo: Emo) -> None:
    emo.post("_sendbatch", json.dumps({"q": list(range(2500))}))
    assert emo.size("q") == 2500
    assert emo.payloads("q", limit=1000) + emo.payloads("q", limit=1000) + emo.payloads("q", limit=1000) == list(
        range(2500)
    )


def test_what_does_not_exist_is_an_empty_queue(emo: Emo) -> None:
    for verb in ("poll", "peek"):
        reply = emo.get(f"nowhere/{verb}")
        assert (reply.status, reply.body) == (200, b"[]")
    for verb in ("size", "claimcount"):
        reply = emo.get(f"nowhere/{verb}")
        assert (reply.status, reply.body, reply.headers["Content-Type"]) == (200, b"0", JSON)
    for verb in ("ack", "renew"):
        assert emo.post(f"nowhere/{verb}", "[]").json == SUCCESS
        assert emo.post(f"nowhere/{verb}", '["0"]').json == SUCCESS
    assert emo.post("nowhere/unclaimall").json == SUCCESS
    assert emo.talk("DELETE", f"{emo.base}/nowhere").json == SUCCESS
    assert emo.talk("GET", "/queues").json["total"] == 0


def test_poll_defaults_to_ten_messages_for_thirty_seconds(emo: Emo, server: ThreadServer) -> None:
    server.clock.stop()
    emo.post("q/sendbatch", json.dumps(list(range(12))))
    assert emo.payloads("q") == list(range(10))
    assert emo.payloads("q") == [10, 11]
    server.clock.advance(29)
    assert emo.payloads("q") == []
    server.clock.advance(1.5)
    assert emo.payloads("q", limit=12) == list(range(12))


def test_a_claim_runs_out_after_its_ttl(emo: Emo, server: ThreadServer) -> None:
    server.clock.stop()
    emo.send("q", "1")
    [first] = emo.poll("q", ttl=3600, limit=1)
    server.clock.advance(3599)
    assert emo.poll("q") == []
    server.clock.advance(1.5)
    [again] = emo.poll("q")
    assert again == first


def test_a_ttl_of_nothing_claims_nothing(emo: Emo) -> None:
    emo.send("q", "1", "2")
    assert emo.payloads("q", ttl=0) == [1, 2]
    assert emo.claim_count("q") == 0
    assert emo.payloads("q", ttl=0, limit=1) == [1]
    assert emo.payloads("q") == [1, 2]


def test_ack_and_ack_again(emo: Emo, server: ThreadServer) -> None:
    emo.send("q", "1", "2")
    messages = emo.poll("q")
    emo.ack("q", messages[:1])
    emo.ack("q", messages)
    emo.ack("q", messages)
    emo.ack("q", [])
    server.clock.advance(60)
    assert emo.poll("q") == []
    assert emo.size("q") == 0


def test_a_late_ack_still_finishes(emo: Emo, server: ThreadServer) -> None:
    emo.send("q", "1")
    messages = emo.poll("q", ttl=1)
    server.clock.advance(5)
    emo.ack("q", messages)
    assert emo.poll("q") == []


def test_ids_of_another_queue_or_of_nothing_change_nothing(emo: Emo) -> None:
    emo.send("mine", "1")
    emo.send("theirs", "2")
    [mine], [theirs] = emo.poll("mine"), emo.poll("theirs")
    ids = [theirs["id"], "", "no id", "0" * 36, "é" * 36, theirs["id"][:-1] + "f"]
    assert emo.post("mine/ack", json.dumps(ids)).json == SUCCESS
    assert emo.post("mine/renew?ttl=0", json.dumps(ids)).json == SUCCESS
    assert (emo.size("mine"), emo.size("theirs"), emo.claim_count("theirs")) == (1, 1, 1)
    emo.ack("mine", [mine, mine])
    assert emo.size("mine") == 0


def test_the_other_service_has_a_name_space_of_its_own(plain: Emo, dedup: Emo) -> None:
    plain.send("q", "1")
    dedup.send("q", "2")
    [one], [two] = plain.poll("q"), dedup.poll("q")
    assert (one["payload"], two["payload"]) == (1, 2)
    plain.ack("q", [two])
    dedup.ack("q", [one])
    assert (plain.size("q"), dedup.size("q")) == (1, 1)


def test_renew_holds_for_longer(emo: Emo, server: ThreadServer) -> None:
    server.clock.stop()
    emo.send("q", "1")
    messages = emo.poll("q", ttl=10)
    emo.renew("q", messages)
    server.clock.advance(29)
    assert emo.poll("q") == []
    emo.renew("q", messages, ttl=100)
    server.clock.advance(99)
    assert emo.poll("q") == []
    server.clock.advance(2)
    assert emo.payloads("q") == [1]


def test_renew_never_shortens_a_claim(emo: Emo, server: ThreadServer) -> None:
    server.clock.stop()
    emo.send("q", "1")
    emo.renew("q", emo.poll("q", ttl=60), ttl=30)
    server.clock.advance(59)
    assert emo.poll("q") == []


def test_renew_brings_a_claim_back_that_has_run_out(emo: Emo, server: ThreadServer) -> None:
    emo.send("q", "1")
    messages = emo.poll("q", ttl=1)
    server.clock.advance(2)
    emo.renew("q", messages, ttl=30)
    assert emo.poll("q") == []
    assert emo.claim_count("q") == 1


def test_renew_for_nothing_releases_at_once(emo: Emo) -> None:
    emo.send("q", "1", "2")
    messages = emo.poll("q", ttl=3600)
    emo.renew("q", messages[:1], ttl=0)
    assert emo.claim_count("q") == 1
    assert emo.payloads("q") == [1]


def test_peek_ignores_claims_and_changes_nothing(emo: Emo) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(12))))
    emo.poll("q", limit=3)
    assert len(emo.peek("q")) == 10
    assert sorted(message["payload"] for message in emo.peek("q", limit=1000)) == list(range(12))
    assert emo.claim_count("q") == 3
    assert {message["id"] for message in emo.peek("q", limit=3)} <= {
        message["id"] for message in emo.peek("q", limit=12)
    }


def test_partitioned_is_accepted_and_ignored(emo: Emo) -> None:
    assert emo.post("q/send?partitioned=true", "1").json == SUCCESS
    assert emo.get("q/poll?partitioned=true&ttl=0").json[0]["payload"] == 1
    assert emo.get("q/size?partitioned=x").json == 1


def test_head_looks_but_never_polls(emo: Emo, talk: Talk) -> None:
    emo.send("q", "1")
    assert talk("HEAD", f"{emo.base}/q/peek").status == 200
    assert talk("HEAD", f"{emo.base}/q/size").status == 200
    assert talk("HEAD", f"{emo.base}/q/poll").status == 405
    assert emo.claim_count("q") == 0


def test_an_answer_of_many_megabytes(emo: Emo) -> None:
    """A poll stops at about 16 MiB of messages; the rest comes with the next."""
    for n in range(20):
        emo.send("q", json.dumps([n, "x" * 1_000_000]))
    first = emo.payloads("q", limit=1000)
    assert 16 <= len(first) < 20
    assert [n for n, _ in first + emo.payloads("q", limit=1000)] == list(range(20))


def test_messages_outlive_a_restart(serve) -> None:
    server = serve()
    with server.talk() as talk:
        emo = Emo(talk, "/dedupq/1")
        emo.send("q", "1", "1.0", "2")
        [claimed] = emo.poll("q", limit=1, ttl=600)
    server.kill()
    with serve().talk() as talk:
        emo = Emo(talk, "/dedupq/1")
        assert emo.payloads("q") == [2]
        emo.ack("q", [claimed])
        assert emo.size("q") == 1


LONE = [
    rb'"\ud800"',
    rb'"\uDFFF and \ud83d\ude00 and \\ud800"',
    rb'{"\udc00": ["~0!~1", "~0\udc00", "~1\ud800\ud800\udc00"], "a": "\"\uD9aB"}',
]


@pytest.mark.parametrize("message", LONE)
def test_lone_surrogates_come_back_as_they_came(emo: Emo, message: bytes) -> None:
    assert emo.post("q/send", message).json == {"success": True}
    assert emo.post("q/sendbatch", b"[1, " + message + b"]").status == 200
    assert emo.post("_sendbatch", b'{"q": [' + message + b"]}").status == 200
    polled = emo.get("q/poll").body
    assert polled.count(b'"payload":' + message + b"}") == (1 if "dedup" in emo.base else 3)
    assert b'"payload":1}' in polled


def test_lone_surrogates_elsewhere_name_nothing(emo: Emo) -> None:
    assert emo.post("q/ack", rb'["\ud800"]').json == {"success": True}
    assert emo.post("_sendbatch", rb'{"q\ud800": [1]}').status == 400
