"""Two servers, or a server and a library, on one SQLite file."""

from __future__ import annotations

import threading
from base64 import b64decode
from pathlib import Path

from penstock.clock import system_clock
from penstock.model import Draft
from penstock.stores import open_store
from tests.faults.crowd import wait_until
from tests.faults.load import Load, check, create_queue, drain
from tests.talk import Talk


def test_two_servers_never_hand_out_the_same_message(serve) -> None:
    load = Load()
    first, second = serve(), serve()
    with first.talk() as talk:
        create_queue(talk, visibility_timeout=600)
    threads = load.run(first.url, senders=3, receivers=3) + load.run(second.url, senders=3, receivers=3)
    wait_until(lambda: len(load.deleted) > 50)
    first.terminate()
    second.terminate()
    for thread in threads:
        thread.join()
    assert load.other_answers == []
    assert load.received_again == []
    assert len(load.deleted) > 10
    with serve().talk() as talk:
        check(load, [b64decode(message["body_base64"]) for message in peek_all(talk)])


def peek_all(talk: Talk) -> list[dict]:
    messages: list[dict] = []
    after = ""
    while page := talk("GET", f"/v1/queues/q/messages?limit=1000{after}").json:
        if not page["messages"]:
            return messages
        messages += page["messages"]
        after = f"&after={page['after']}"
    return messages


def test_dedup_and_order_hold_between_two_servers(serve) -> None:
    first, second = serve(), serve()
    with first.talk() as one, second.talk() as two:
        one(
            "PUT",
            "/queues/q",
            {"retention_timeout": 600, "visibility_timeout": 600, "message_deduplication": True},
        )
        for number in range(50):
            statuses = sorted(talk("POST", "/messages/q", b"%d" % number).status for talk in (one, two))
            assert statuses == [200, 201]
        received = [talk("GET", "/messages/q").body for _ in range(25) for talk in (one, two)]
    assert received == [b"%d" % number for number in range(50)]


def test_a_poll_wakes_for_a_message_of_another_process(serve, tmp_path: Path) -> None:
    first, second = serve(), serve()
    with first.talk() as talk:
        create_queue(talk, visibility_timeout=600)
    replies = []

    def poll() -> None:
        with first.talk() as talk:
            replies.append(talk("GET", "/messages/q", x_mqs_max_wait_time="19").body)

    for sender in ("server", "library"):
        thread = threading.Thread(target=poll)
        thread.start()
        threading.Event().wait(0.3)  # another process does not tell when its polls wait
        if sender == "server":
            with second.talk() as talk:
                talk("POST", "/messages/q", b"from a server")
        else:
            store = open_store(f"sqlite:///{tmp_path}/data/penstock.db")
            with store.unit() as unit:
                unit.send("q", [Draft(b"from a library")], system_clock())
            store.close()
        thread.join()
    assert replies == [b"from a server", b"from a library"]


def test_settings_changed_by_another_server_hold_at_once(serve) -> None:
    first, second = serve(), serve()
    with first.talk() as one, second.talk() as two:
        create_queue(one, visibility_timeout=600)
        assert two("POST", "/messages/q", b"x").status == 201
        assert one("DELETE", "/queues/q").status == 200
        assert two("POST", "/messages/q", b"x").status == 404
        assert two("GET", "/messages/q").status == 404


def test_a_library_that_holds_the_store_delays_a_server_but_fails_nothing(serve, tmp_path: Path) -> None:
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=600)
        store = open_store(f"sqlite:///{tmp_path}/data/penstock.db")
        answers = []
        with store.unit() as unit:
            unit.send("q", [Draft(b"first")], system_clock())
            thread = threading.Thread(target=lambda: answers.append(talk("POST", "/messages/q", b"second").status))
            thread.start()
            threading.Event().wait(0.3)  # another process does not tell that it waits for the file
            assert answers == []
            with server.talk() as other:
                assert other("GET", "/queues/q").json["status"]["messages"] == 0
        thread.join()
        store.close()
        assert answers == [201]
        assert drain(talk) == [b"first", b"second"]
