"""Bad input: what is answered, and that nothing has happened."""

from __future__ import annotations

import json

import pytest

from penstock.faces.emodb.bodies import DEEPEST
from tests.faces.emodb.conftest import JSON, SUCCESS, Emo
from tests.talk import Reply, Talk

MEGABYTE = 1024 * 1024
NOT_JSON = [
    *(
        b"",
        b" ",
        b"nul",
        b"{",
        b"[1,]",
        b'{"a":1,}',
        b"{'a':1}",
        b"01",
        b"1.",
        b"+1",
        b".5",
        b"1 2",
        b"NaN",
        b"Infinity",
    ),
    *(b'"\n"', b'"\x00"', b'"\\x"', b'"\\ud80"', b"\\ud800"),
    *(b"// a\n1", b"\xef\xbb\xbf1", b'"open', b"undefined", b"<xml/>"),
]
NOT_UTF8 = [b'"\xff"', b'{"a":"\xc3"}', b'"\xed\xa0\x80"', b'"\xc0\x80"', "1".encode("utf-16")]


# The class that EmoDB's Java client throws, and where the body tells why.
THROWN = {
    400: ("java.lang.IllegalArgumentException", None),
    404: ("com.bazaarvoice.emodb.queue.api.UnknownMoveException", "message"),
    503: ("com.bazaarvoice.emodb.common.api.ServiceUnavailableException", "message"),
}


def refused(reply: Reply, status: int = 400) -> str:
    """The reason, in plain text but where the Java client wants to read an exception."""
    thrown, key = THROWN.get(status, (None, None))
    assert (reply.status, reply.headers.get("X-BV-Exception")) == (status, thrown), reply.body
    assert reply.headers["Content-Type"] == ("text/plain" if key is None else "application/json")
    return reply.body.decode() if key is None else reply.json[key]


@pytest.mark.parametrize("body", NOT_JSON + NOT_UTF8)
def test_what_is_not_json(emo: Emo, body: bytes) -> None:
    assert "parse" in refused(emo.post("q/send", body))
    assert "parse" in refused(emo.post("q/sendbatch", b"[1, " + body + b"]"))
    assert "parse" in refused(emo.post("_sendbatch", b'{"q": [1, ' + body + b"]}"))
    for verb in ("ack", "renew"):
        assert "parse" in refused(emo.post(f"q/{verb}", body))
    assert emo.size("q") == 0


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/jsonp", "application/x-json", "json", ""])
def test_a_wrong_content_type(emo: Emo, content_type: str | None) -> None:
    for path, body in (
        ("q/send", "1"),
        ("q/sendbatch", "[1]"),
        ("_sendbatch", '{"q":[1]}'),
        ("q/ack", "[]"),
        ("q/renew", "[]"),
    ):
        assert "application/json" in refused(emo.post(path, body, content_type), 415)
    assert emo.size("q") == 0


@pytest.mark.parametrize("body", ["null", "1", '"id"', "{}", '{"ids":[]}', "[1]", "[null]", "[[]]", '["a", 1]', "true"])
def test_wrong_json_for_ids(emo: Emo, body: str) -> None:
    emo.send("q", "1")
    emo.poll("q")
    assert "Expected" in refused(emo.post("q/ack", body))
    assert "Expected" in refused(emo.post("q/renew?ttl=0", body))
    assert (emo.size("q"), emo.claim_count("q")) == (1, 1)


@pytest.mark.parametrize("body", ["null", "1", '"x"', '{"q":[1]}', "true"])
def test_wrong_json_for_a_batch_of_one_queue(emo: Emo, body: str) -> None:
    assert "Expected `array`" in refused(emo.post("q/sendbatch", body))
    assert emo.size("q") == 0


@pytest.mark.parametrize(
    "body", ["null", "1", "[1]", '[["q",[1]]]', '{"q":1}', '{"q":null}', '{"q":{"a":1}}', '{"q":[1],"r":"x"}']
)
def test_wrong_json_for_a_batch_of_several_queues(emo: Emo, body: str) -> None:
    assert "Expected" in refused(emo.post("_sendbatch", body))
    assert emo.size("q") == 0


@pytest.mark.parametrize(
    "limit", ["0", "-1", "1001", "", "x", "1.5", "1e2", "٣", "99999999999999999999", " 1", "+1", "1_0"]
)
def test_limits_out_of_range(emo: Emo, limit: str) -> None:
    from urllib.parse import quote

    emo.send("q", "1")
    for verb in ("poll", "peek"):
        assert "limit must be a number from 1 to 1000" in refused(emo.get(f"q/{verb}?limit={quote(limit)}"))
    if limit != "1001":
        assert "limit must be" in refused(emo.get(f"q/size?limit={quote(limit)}"))
    assert emo.claim_count("q") == 0


@pytest.mark.parametrize("ttl", ["-1", "3601", "", "x", "0.5", "1h", "99999999999999999999"])
def test_ttls_out_of_range(emo: Emo, ttl: str) -> None:
    emo.send("q", "1")
    [message] = emo.peek("q")
    assert "ttl must be a number from 0 to 3600" in refused(emo.get(f"q/poll?ttl={ttl}"))
    assert "ttl must be" in refused(emo.post(f"q/renew?ttl={ttl}", json.dumps([message["id"]])))
    assert emo.claim_count("q") == 0


BAD_NAMES = ["Q", "a b", ".", "..", "_q", "_", "é", "a%2Fb", "a%00", "x" * 256, "a*", "a%25", "a+b", "a,b", "a~b"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_the_document_forbids(emo: Emo, name: str) -> None:
    from urllib.parse import quote, unquote

    quoted = quote(unquote(name), safe="")
    replies = [
        emo.post(f"{quoted}/send", "1"),
        emo.post(f"{quoted}/sendbatch", "[1]"),
        emo.get(f"{quoted}/poll"),
        emo.get(f"{quoted}/peek"),
        emo.post(f"{quoted}/ack", "[]"),
        emo.post(f"{quoted}/renew", "[]"),
        emo.get(f"{quoted}/size"),
        emo.get(f"{quoted}/claimcount"),
        emo.post(f"{quoted}/unclaimall"),
        emo.talk("DELETE", f"{emo.base}/{quoted}"),
        emo.post("_sendbatch", json.dumps({"good": [1], unquote(name): [1]})),
        emo.post(f"_move?from={quoted}&to=good"),
        emo.post(f"_move?from=good&to={quoted}"),
    ]
    for reply in replies:
        assert "Invalid queue name" in refused(reply)
    assert emo.size("good") == 0
    assert emo.talk("GET", "/queues").json["total"] == 0


@pytest.mark.parametrize("name", ["a", "x" * 255, "0", "-", "a.b:c@d_e-f", "__q", "...", "q_", ".q"])
def test_names_it_allows(emo: Emo, name: str) -> None:
    emo.send(name, "1")
    assert emo.payloads(name) == [1]


def test_a_message_over_the_limit(emo: Emo, other_talk: Talk) -> None:
    emo.send("q", json.dumps("x" * (MEGABYTE - 2)))
    text = json.dumps("x" * (MEGABYTE - 1))
    assert str(MEGABYTE) in refused(emo.post("q/sendbatch", f"[{text}]"), 413)
    assert str(MEGABYTE) in refused(emo.post("_sendbatch", f'{{"q":[1,{text}]}}'), 413)
    reply = emo.post("q/send", text)
    assert (reply.status, str(MEGABYTE) in reply.json["error"]) == (413, True)
    assert Emo(other_talk, emo.base).size("q") == 1


def test_a_batch_over_the_limit(emo: Emo, other_talk: Talk) -> None:
    assert "10000" in refused(emo.post("q/sendbatch", json.dumps([1] * 10_001)), 413)
    assert "10000" in refused(emo.post("_sendbatch", json.dumps({"q": [1] * 10_001})), 413)
    assert "10000" in refused(emo.post("_sendbatch", json.dumps({"q": [1] * 5_001, "r": [1] * 5_000})), 413)
    reply = emo.post("_sendbatch", b" " * (16 * MEGABYTE) + b"{}")
    assert (reply.status, str(16 * MEGABYTE) in reply.json["error"]) == (413, True)
    other = Emo(other_talk, emo.base)
    assert (other.size("q"), other.size("r")) == (0, 0)


def test_too_many_ids(emo: Emo) -> None:
    assert emo.post("q/ack", json.dumps(["x"] * 10_000)).json == SUCCESS
    for verb in ("ack", "renew"):
        assert "10000" in refused(emo.post(f"q/{verb}", json.dumps(["x"] * 10_001)), 413)


def test_deeply_nested_json(emo: Emo) -> None:
    deepest = "[" * DEEPEST + "]" * DEEPEST
    emo.send("q", deepest)
    for deeper in ("[" + deepest + "]", '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 400_000):
        assert refused(emo.post("q/send", deeper))
        assert refused(emo.post("q/sendbatch", f"[{deeper}]"))
        assert refused(emo.post("_sendbatch", f'{{"q":[{deeper}]}}'))
        assert refused(emo.post("q/ack", deeper))
    assert emo.get("q/poll").body.endswith(f'"payload":{deepest}}}]'.encode())
    assert emo.size("q") == 1


def test_many_brackets_that_are_not_deep(emo: Emo) -> None:
    flat = json.dumps([[1]] * 5_000 + ["[" * 5_000, '\\"[\n' * 1_000])
    emo.send("q", flat)
    assert emo.payloads("q") == [json.loads(flat)]


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "1e-999", "9" * 400, "9" * 5_000, "1e" + "9" * 5_000, "1." + "0" * 9_000]
)
def test_numbers_out_of_range_are_json_all_the_same(emo: Emo, number: str) -> None:
    emo.send("q", f'{{"n":{number}}}')
    assert emo.get("q/poll").body.endswith(f'"payload":{{"n":{number}}}}}]'.encode())


def test_routes_that_are_none(emo: Emo) -> None:
    assert emo.get("q").status == 405
    assert emo.get("q/nothing").status == 404
    assert emo.get("q/send").status == 405
    assert emo.post("q/poll", "[]").status == 405
    assert emo.talk("PUT", f"{emo.base}/q").status == 405
    assert emo.get("").status == 404


def test_a_key_in_the_query_does_not_count(emo: Emo) -> None:
    """Addresses end up in logs; a key there is ignored like any other parameter."""
    assert emo.get("q/size?APIKey=secret").json == 0


def test_overload_answers_503_and_when_to_come_back(emo: Emo, server, monkeypatch) -> None:
    from penstock.errors import StoreFull

    def full(*_args: object) -> None:
        raise StoreFull("the device of the store is full")

    monkeypatch.setattr(server.store, "unit", full)
    for reply in (emo.post("q/send", "1"), emo.get("q/poll"), emo.get("q/size"), emo.post("q/ack", '["x"]')):
        assert "full" in refused(reply, 503)
        assert reply.headers["Retry-After"] == "10"
        assert reply.json["retryAfterSeconds"] == 10
    monkeypatch.undo()


def test_success_is_json(emo: Emo) -> None:
    assert emo.post("q/send", "1").headers["Content-Type"] == JSON
