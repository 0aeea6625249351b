"""One port with the other APIs, where some words are theirs; and a port of its own, where none is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidSetting
from penstock.server.config import Config
from penstock.server.faces import FACES, reserved_here
from penstock.timings import Timings
from tests.faces.mqs.conftest import PLAIN
from tests.servers import SERVE, START_S, ThreadServer
from tests.talk import Talk

# Routes are only looked at here.
NO_BROKER: Any = None
NO_KEYRING: Any = None
RESERVED = reserved_here(NO_BROKER, NO_KEYRING, Config())
UNKNOWN = "4ad814ab-213e-11e3-a9a3-0025904f6e08"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadServer]:
    # One that is asked for its health waits for its store.
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", timings=Timings(probe_s=60))
    yield running
    running.stop()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Talk]:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", faces="mqcore")
    with running.talk() as talk:
        yield talk
    running.stop()


def explained(reply: object, word: str) -> bool:
    return reply.status == 400 and f"'{word}' cannot be a queue here" in reply.json["error"]


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_reserved_word_answers_400_and_says_why(talk: Talk, word: str) -> None:
    assert explained(talk("PUT", f"/{word}"), word)
    assert explained(talk("DELETE", f"/{word}"), word)
    # It never exists, and asking is not a mistake.
    if word not in ("queues", "health", "metrics", "openapi.json", "docs", "console", "favicon.ico"):
        assert talk("GET", f"/{word}").status == 404


# Below the account of SQS any word is the name of a queue there, and SQS answers in its own words.
@pytest.mark.parametrize("word", sorted(RESERVED - {"queues", "messages", Config().sqs_account}))
def test_messages_of_a_reserved_word(talk: Talk, word: str) -> None:
    assert explained(talk("POST", f"/{word}/messages", b"x"), word)
    assert explained(talk("GET", f"/{word}/messages"), word)
    assert explained(talk("DELETE", f"/{word}/messages/{UNKNOWN}"), word)


def test_a_reserved_word_in_disguise(talk: Talk) -> None:
    assert explained(talk("PUT", "/%71ueues"), "queues")
    assert explained(talk("POST", "/qu%65ue/messages", b"x"), "queue")


def test_where_another_api_answers_it_does(talk: Talk) -> None:
    assert talk("GET", "/queues").json == {"total": 0, "queues": []}
    assert talk("GET", "/health").body == b"green"
    # A queue called "messages" is a good name there.
    assert talk("PUT", "/queues/messages", PLAIN).status == 201
    assert talk("POST", "/messages/messages", b"x").status == 201
    assert talk("GET", "/messages/messages").body == b"x"


def test_every_first_word_of_the_other_apis_is_reserved() -> None:
    for name, face in FACES.items():
        if name != "mqcore":
            routes = face.routes(NO_BROKER, NO_KEYRING, Config(), frozenset())
            words = {route.pattern.split("/")[1] for route in routes}
            # The root belongs to no queue, and a parameter is not a word.
            assert {word for word in words if word and not word.startswith("{")} <= RESERVED, name


def test_a_message_travels_between_the_apis(talk: Talk) -> None:
    talk("PUT", "/shared")
    talk("POST", "/shared/messages", b"from MQ-Core", content_type="text/x")
    received = talk("GET", "/messages/shared")
    assert (received.body, received.headers["Content-Type"]) == (b"from MQ-Core", "text/x")
    talk("POST", "/messages/shared", b"from mqs", content_type="text/y")
    fetched = talk("GET", "/shared/messages")
    assert (fetched.body, fetched.headers["Content-Type"]) == (b"from mqs", "text/y")
    assert talk("DELETE", f"/shared/messages/{fetched.headers['X-Message-Id']}").status == 202
    assert talk("GET", "/queues/shared").json["status"]["messages"] == 1


def test_a_queue_of_another_api_whose_name_holds_a_colon_is_none_here(talk: Talk) -> None:
    assert talk("PUT", "/queues/a:b", PLAIN).status == 201
    assert talk("GET", "/a:b").status == 404
    assert talk("POST", "/a:b/messages", b"x").status == 404


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_alone_no_word_is_reserved(alone: Talk, word: str) -> None:
    assert alone("PUT", f"/{word}").status == 201
    assert alone("GET", f"/{word}").status == 200
    message_id = alone("POST", f"/{word}/messages", b"x").headers["X-Message-Id"]
    assert alone("GET", f"/{word}/messages").body == b"x"
    assert alone("DELETE", f"/{word}/messages/{message_id}").status == 202
    assert alone("DELETE", f"/{word}").status == 200


def test_the_time_of_redelivery_is_a_setting(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", mqcore_redelivery_s=2.5)
    with running.talk() as talk:
        talk("PUT", "/q")
        talk("POST", "/q/messages", b"x")
        assert talk("GET", "/q/messages").status == 200
        running.clock.advance(2.6)
        assert talk("GET", "/q/messages").status == 200
    running.stop()


def test_a_face_that_the_store_cannot_carry_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidSetting, match=r"cannot carry the mqs API: it does not keep settings of a queue, .*dead-"
    ):
        ThreadServer(f"mqcore:///{tmp_path}/root", faces="mqs")
    with pytest.raises(InvalidSetting, match="'nonsense', which is not one of mqs, native"):
        ThreadServer(f"mqcore:///{tmp_path}/root", faces="mqcore,nonsense")


def test_without_a_wish_a_store_serves_what_it_can_carry(tmp_path: Path) -> None:
    for store, faces in (("mqcore:///{}/root", ["mqcore"]), ("sqlite:///{}/p.db", list(FACES))):
        running = ThreadServer(store.format(tmp_path))
        running.stop()
        assert running.app.faces == faces


def test_the_flag_may_be_repeated_or_a_list(serve) -> None:
    server = serve("--face", "mqs", "--face", "mqcore")
    with server.talk() as talk:
        assert talk("GET", "/queues").status == 200
        assert talk("PUT", "/q").status == 201
        assert talk("GET", "/v1/queues").status == 404


def test_a_face_that_cannot_be_carried_ends_the_program(tmp_path: Path) -> None:
    command = [*SERVE, "--store", "mqcore:///root", "--faces", "mqcore,native"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=START_S)
    assert ended.returncode == 2
    assert "cannot carry the native API" in ended.stderr
