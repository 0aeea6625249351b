"""The page of API keys: expiry, rotation and last use. Making and revoking is in test_sessions.py."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.faces.console.conftest import Person
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer

Keyed = Callable[..., ThreadServer]
People = Callable[[ThreadServer], Person]
DAY_S = 86_400


@pytest.fixture
def boss(key_store: KeyStore) -> str:
    return key_store.create("boss", "queue|*|*")


def secret_of(page: bytes) -> str:
    found = re.search(rb"psk_[\w-]+", page)
    assert found is not None, page
    return found[0].decode()


def test_a_session_ends_with_its_key(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed(console_idle_s=10 * DAY_S, console_session_s=10 * DAY_S)
    server.clock.stop()
    person, guest = people(server), people(server)
    person.sign_in(boss)
    person.get("/console/keys")
    fields = {"name": "guest", "rules": "queue|get_status|*", "expires": "1d"}
    secret = secret_of(person.post("/console/keys", fields).body)
    guest.sign_in(secret)
    server.clock.advance(DAY_S - 1)
    assert guest.get().status == 200
    server.clock.advance(1)
    reply = guest.get()
    assert (reply.status, reply.headers["Location"]) == (303, "/console/sign-in?why=expired")
    assert b"has expired" in guest.get(reply.headers["Location"]).body
    page = person.get("/console/keys?key=guest&action=get_status&queue=q").body
    assert b"No: guest has expired." in page
    assert person.post("/console/keys/guest/update", {"expires": ""}).status == 303
    assert b"The key guest never expires." in person.get("/console/keys").body
    guest.sign_in(secret)


def test_rotate_and_retire_and_who_is_signed_in_with_which(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed()
    old, new = people(server), people(server)
    old.sign_in(boss)
    old.get("/console/keys")
    made = old.post("/console/keys/boss/rotate", {"grace": ""})
    assert b"good as well until it is retired" in made.body
    new.sign_in(secret_of(made.body))
    assert old.get().status == 200
    page = new.get("/console/keys").body
    assert b"two secrets" in page
    assert new.post("/console/keys/boss/rotate", {"grace": ""}).status == 409
    assert new.post("/console/keys/boss/retire").status == 303
    assert b"two secrets" not in new.get("/console/keys").body
    assert old.get().headers["Location"] == "/console/sign-in?why=revoked"


@pytest.mark.parametrize(("path", "fields"), [("rotate", {"grace": "soon"}), ("update", {"expires": "2001-01-01"})])
def test_what_cannot_be_read_is_said_beside_the_key(
    boss: str, keyed: Keyed, people: People, path: str, fields: dict[str, str]
) -> None:
    person = people(keyed())
    person.sign_in(boss)
    person.get("/console/keys")
    reply = person.post(f"/console/keys/boss/{path}", fields)
    assert (reply.status, b'role="alert"' in reply.body) == (422, True)
