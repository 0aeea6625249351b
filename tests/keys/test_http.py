"""API keys over HTTP: the routes of /v1/keys, and how a running server takes notice."""

from __future__ import annotations

import pytest

from penstock.client import Client, Refused
from penstock.errors import InvalidSetting
from tests.keys.conftest import KeyStore, eventually
from tests.servers import ThreadServer
from tests.talk import Talk


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_both_headers_carry_a_key(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|*|*")
    with keyed().talk() as talk:
        assert talk("GET", "/queue/1/q/size", x_bv_api_key=secret).body == b"0"
        assert talk("GET", "/queue/1/q/size", **bearer(secret)).body == b"0"
        assert talk("GET", "/v1/queues", x_bv_api_key=secret).status == 200
        assert talk("GET", "/queues", **bearer(secret)).status == 200
        assert talk("GET", "/queue/1/q/size").status == 403
        assert talk("GET", f"/queue/1/q/size?APIKey={secret}").status == 403


def test_the_client_sends_its_key(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|*|mine-*")
    with Client(keyed().url, api_key=secret) as client:
        client.create_queue("mine-q")
        client.send("mine-q", "x")
        assert [message.text for message in client.claim("mine-q")] == ["x"]
        with pytest.raises(Refused):
            client.create_queue("theirs")


def test_the_first_key_made_over_http_shuts_the_server(talk: Talk) -> None:
    made = talk("POST", "/v1/keys", {"name": "admin", "rules": ["queue|*|*"]})
    assert made.status == 201
    assert sorted(made.json) == [
        "aws_access_key_id",
        "aws_secret_access_key",
        "created_at",
        "expires_at",
        "last_used_at",
        "name",
        "old_secret",
        "revoked_at",
        "rotated_at",
        "rules",
        "secret",
        "state",
        "warning",
    ]
    assert "every request" in made.json["warning"]
    assert talk("GET", "/v1/keys").status == 401, "the door is shut when the answer is there"
    secret = made.json["secret"]
    second = talk("POST", "/v1/keys", {"name": "two", "rules": ["queue|post|x"]}, **bearer(secret))
    assert (second.status, "warning" in second.json) == (201, False)
    talk("DELETE", "/v1/keys/two", **bearer(secret))
    listed = talk("GET", "/v1/keys", **bearer(secret))
    assert listed.status == 200
    assert secret.encode() not in listed.body
    key = listed.json["keys"][0]
    assert key == {
        "name": "admin",
        "rules": ["queue|*|*"],
        "created_at": key["created_at"],
        "revoked_at": None,
        "expires_at": None,
        "state": "in force",
        "last_used_at": key["last_used_at"],
        "rotated_at": None,
        "old_secret": None,
    }
    assert key["last_used_at"] >= key["created_at"]


def test_create_use_and_revoke_while_the_server_runs(key_store: KeyStore, keyed) -> None:
    admin = bearer(key_store.create("admin", "queue|*|*"))
    with keyed().talk() as talk:
        secret = talk("POST", "/v1/keys", {"name": "w", "rules": ["queue|post|a-*"]}, **admin).json["secret"]
        assert talk("POST", "/queue/1/a-b/send", [1], x_bv_api_key=secret).status == 200
        assert talk("POST", "/queue/1/c/send", [1], x_bv_api_key=secret).status == 403
        revoked = talk("DELETE", "/v1/keys/w", **admin)
        assert (revoked.status, revoked.json) == (200, {"revoked": "w"})
        assert talk("POST", "/queue/1/a-b/send", [1], x_bv_api_key=secret).status == 403
        assert talk("DELETE", "/v1/keys/w", **admin).status == 200
        [_, key] = talk("GET", "/v1/keys", **admin).json["keys"]
        assert key["revoked_at"] >= key["created_at"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "taken", "rules": ["queue|*|*"]}, 409),
        ({"name": "bad name", "rules": ["queue|*|*"]}, 400),
        ({"name": "k", "rules": []}, 400),
        ({"name": "k", "rules": ["queue|send|x"]}, 400),
        ({"name": "k", "rules": "queue|*|*"}, 400),
        ({"name": "k"}, 400),
        ({"name": "k", "rules": ["queue|*|*"], "secret": "mine"}, 400),
        (["k"], 400),
    ],
)
def test_a_key_that_cannot_be_made(key_store: KeyStore, keyed, body: object, status: int) -> None:
    admin = bearer(key_store.create("taken", "queue|*|*"))
    with keyed().talk() as talk:
        reply = talk("POST", "/v1/keys", body, **admin)
        assert (reply.status, list(reply.json)) == (status, ["error"])
        assert len(talk("GET", "/v1/keys", **admin).json["keys"]) == 1


def test_an_unknown_key_cannot_be_revoked(talk: Talk) -> None:
    assert talk("DELETE", "/v1/keys/nobody").status == 404


def test_a_key_made_by_another_process_is_noticed(server: ThreadServer, talk: Talk, key_store: KeyStore) -> None:
    assert talk("GET", "/v1/queues").status == 200
    secret = key_store.create("k", "queue|*|*")
    eventually(lambda: talk("GET", "/v1/queues").status == 401)
    assert talk("GET", "/v1/queues", **bearer(secret)).status == 200
    key_store.revoke("k")
    eventually(lambda: talk("GET", "/v1/queues", **bearer(secret)).status == 401)


def test_revoking_the_last_key_does_not_open_the_server(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|*|*")
    server = keyed()
    with server.talk() as talk:
        key_store.revoke("k")
        eventually(lambda: talk("GET", "/v1/queues", **bearer(secret)).status == 401)
        assert talk("GET", "/v1/queues").status == 401
        assert talk("GET", "/queue/1/q/size").status == 403
    server.stop()
    with keyed().talk() as talk:
        assert talk("GET", "/v1/queues").status == 401


def test_another_machine_may_come_only_where_there_are_keys(key_store: KeyStore, keyed) -> None:
    with pytest.raises(InvalidSetting, match="no API key"):
        keyed(host="0.0.0.0")
    key_store.create("k", "queue|post|x")
    keyed(host="0.0.0.0").stop()
    key_store.revoke("k")
    keyed(host="0.0.0.0")


def test_another_machine_may_come_where_it_is_said_to_be_on_purpose(keyed) -> None:
    keyed(host="0.0.0.0", expose_without_keys=True)


def test_what_was_read_before_a_change_does_not_undo_it(key_store: KeyStore, keyed) -> None:
    """The server looks at the keys every second; a list that was under way while a key was made here is old."""
    server = keyed()
    with server.talk() as talk:
        watch, keys, held = server.app.front.keys, server.app.front.keys._broker.keys, []

        class HeldBack:
            def listen(self, load: object, _keep: object) -> None:
                held.append(load)

        listed = keys.list
        keys.list = lambda **_named: HeldBack()
        watch.look()
        keys.list = listed
        secret = talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"]}).json["secret"]
        held[0]([])
        assert talk("GET", "/v1/queues").status == 401
        assert talk("GET", "/v1/queues", **bearer(secret)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "needed"),
    [
        ("POST", "/messages/orders", "x", "queue|post|orders"),
        ("GET", "/orders/messages", None, "queue|poll|orders"),
        ("PUT", "/v1/queues/orders", {}, "queue|admin|orders"),
        ("GET", "/v1/queues", None, "queue|get_status|*"),
        ("GET", "/v1/keys", None, "queue|admin|*"),
        ("PUT", "/v1/queues/mine", {"redrive": {"max_receives": 1, "dead_letter_queue": "dead"}}, "queue|post|dead"),
    ],
)
def test_a_refusal_says_which_right_is_missing(
    key_store: KeyStore, keyed, method: str, path: str, body: object, needed: str
) -> None:
    weak = bearer(key_store.create("weak", "queue|admin|mine"))
    with keyed().talk() as talk:
        reply = talk(method, path, body, **weak)
        assert (reply.status, reply.json) == (
            403,
            {"error": f"this API key does not permit it: it needs {needed}"},
        )


def test_a_right_on_a_foreign_message_does_not_tell_its_queue(key_store: KeyStore, keyed) -> None:
    weak, boss = bearer(key_store.create("weak", "queue|*|mine")), bearer(key_store.create("boss", "queue|*|*"))
    with keyed().talk() as talk:
        talk("PUT", "/v1/queues/secret-plans", {}, **boss)
        talk("POST", "/messages/secret-plans", "x", **boss)
        message = talk("GET", "/messages/secret-plans", **boss).headers["X-MQS-MESSAGE-ID"]
        reply = talk("DELETE", f"/messages/{message}", **weak)
        assert reply.status == 403
        assert "it needs poll on the queue of this message" in reply.json["error"]
        assert b"secret-plans" not in reply.body


def test_a_wrong_key_is_logged_with_the_address_it_came_from(key_store: KeyStore, keyed, caplog) -> None:
    key_store.create("k", "queue|*|*")
    with keyed().talk() as talk:
        assert talk("GET", "/v1/queues", **bearer("wrong")).status == 401
    assert "127.0.0.1 sent an unknown or revoked API key" in caplog.messages


def test_a_batch_with_one_forbidden_queue_sends_nothing(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|post|mine-*", "queue|get_status|*")
    with keyed().talk() as talk:
        for base in ("/queue/1", "/dedupq/1"):
            body = {"mine-a": [1], "theirs": [2], "mine-b": [3]}
            reply = talk("POST", f"{base}/_sendbatch", body, x_bv_api_key=secret)
            assert (reply.status, reply.json) == (403, {"reason": "not authorized"})
            for queue in body:
                assert talk("GET", f"{base}/{queue}/size", x_bv_api_key=secret).json == 0
            del body["theirs"]
            assert talk("POST", f"{base}/_sendbatch", body, x_bv_api_key=secret).status == 200


def test_an_mqs_delete_by_a_foreign_id_is_refused(key_store: KeyStore, keyed) -> None:
    mine, boss = key_store.create("k", "queue|*|mine"), key_store.create("boss", "queue|*|*")
    with keyed().talk() as talk:
        ids = {}
        for queue in ("mine", "theirs"):
            talk("POST", f"/queue/1/{queue}/send", [1], x_bv_api_key=boss)
            ids[queue] = talk("GET", f"/messages/{queue}", **bearer(boss)).headers["X-MQS-MESSAGE-ID"]
        for text in (ids["theirs"], ids["theirs"].upper(), ids["theirs"].replace("-", "")):
            assert talk("DELETE", f"/messages/{text}", **bearer(mine)).status == 403
        assert talk("GET", "/queue/1/theirs/size", x_bv_api_key=boss).json == 1
        assert talk("DELETE", f"/messages/{ids['mine']}", **bearer(mine)).status == 204
        assert talk("DELETE", f"/messages/{ids['mine']}", **bearer(mine)).status == 404
        assert talk("DELETE", f"/messages/{ids['theirs']}", **bearer(boss)).status == 204


def test_dead_letters_go_only_where_the_key_may_send(key_store: KeyStore, keyed) -> None:
    """Else a key that administers one queue could push messages into any other."""
    mine = bearer(key_store.create("k", "queue|*|mine-*"))
    boss = bearer(key_store.create("boss", "queue|*|*"))
    with keyed().talk() as talk:
        talk("PUT", "/v1/queues/theirs", {}, **boss)
        talk("PUT", "/v1/queues/mine-dead", {}, **mine)
        for target, status in (("theirs", 403), ("mine-dead", 201)):
            redrive = {"redrive": {"max_receives": 1, "dead_letter_queue": target}}
            assert talk("PUT", f"/v1/queues/mine-{target}-1", redrive, **mine).status == status
            policy = {"max_receives": 1, "dead_letter_queue": target}
            settings = {"retention_timeout": 1, "visibility_timeout": 1, "message_deduplication": False}
            reply = talk("PUT", f"/queues/mine-{target}-2", {**settings, "redrive_policy": policy}, **mine)
            assert reply.status == status
        assert (
            talk(
                "PATCH", "/v1/queues/mine-dead", {"redrive": {"max_receives": 1, "dead_letter_queue": "theirs"}}, **mine
            ).status
            == 403
        )


def test_a_move_needs_both_ends(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|poll|a", "queue|post|b", "queue|get_status|a")
    boss = key_store.create("boss", "queue|*|*")
    with keyed().talk() as talk:
        for source, target, status in (("a", "b", 200), ("b", "a", 403), ("a", "c", 403), ("c", "b", 403)):
            assert talk("POST", f"/queue/1/_move?from={source}&to={target}", x_bv_api_key=secret).status == status
        foreign = talk("POST", "/queue/1/_move?from=x&to=y", x_bv_api_key=boss).json["id"]
        reply = talk("GET", f"/queue/1/_move/{foreign}", x_bv_api_key=secret)
        assert (reply.status, reply.json) == (403, {"reason": "not authorized"})


def test_wrong_keys_are_slowed_down_and_good_ones_are_not(key_store: KeyStore, keyed) -> None:
    secret = key_store.create("k", "queue|*|*")
    with keyed().talk() as talk:
        for _ in range(2_000):
            reply = talk("GET", "/queue/1/q/size", x_bv_api_key="wrong")
            if reply.status == 429:
                break
            assert (reply.status, reply.json) == (403, {"reason": "not authorized"})
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert talk("GET", "/queue/1/q/size", x_bv_api_key=secret).status == 200
        assert talk("GET", "/queue/1/q/size").status == 403
