"""Every route of every API × every kind of key × a queue of one's own or somebody else's.

The table below says, independently of the code, what each route asks. A route that is missing here, or that asks
nothing, fails the test; so does a refused request that has changed anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock import keys
from penstock.clock import system_clock
from penstock.edge.router import Route
from penstock.faces.permission import Permission
from penstock.model import Dedup, Draft, ExportRef, Key, Settings, ShipmentRef, ShipmentState
from penstock.server.config import Config
from penstock.server.faces import FACES
from penstock.stores import Store, open_store
from penstock.stores.protocol import Unit
from penstock.timings import Timings
from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until

# What a request needs: an action on the queue it is about, on the queue "own-to", or on all queues.
EVERY = "*"
TO = "own-to"
HERE = "{queue}"
NOBODY: tuple[tuple[str, str], ...] = ()
# Any key that is good: it is told of what it may see.
ANY_KEY = (("", ""),)


def on_queue(action: str) -> tuple[tuple[str, str], ...]:
    return ((action, HERE),)


def on_all(action: str) -> tuple[tuple[str, str], ...]:
    return ((action, EVERY),)


NEEDS: dict[str, tuple[tuple[str, str], ...]] = {
    "GET /health": NOBODY,
    "GET /queues": on_all("get_status"),
    "PUT /queues/{name}": on_queue("admin"),
    "POST /queues/{name}": on_queue("admin"),
    "DELETE /queues/{name}": on_queue("admin"),
    "GET /queues/{name}": on_queue("get_status"),
    "POST /messages/{queue}": on_queue("post"),
    "GET /messages/{queue}": on_queue("poll"),
    "DELETE /messages/{id}": on_queue("poll"),
    "GET /v1/queues": on_all("get_status"),
    "GET /v1/overview": ANY_KEY,
    "GET /v1/queues/{queue}/history": on_queue("get_status"),
    "GET /v1/queues/{queue}/workers": on_queue("get_status"),
    "PUT /v1/queues/{queue}": on_queue("admin"),
    "PATCH /v1/queues/{queue}": on_queue("admin"),
    "GET /v1/queues/{queue}": on_queue("get_status"),
    "DELETE /v1/queues/{queue}": on_queue("admin"),
    "POST /v1/queues/{queue}/pause": on_queue("admin"),
    "POST /v1/queues/{queue}/resume": on_queue("admin"),
    "POST /v1/queues/{queue}/messages": on_queue("post"),
    "GET /v1/queues/{queue}/messages": on_queue("poll"),
    "GET /v1/queues/{queue}/messages/{message}": on_queue("poll"),
    "POST /v1/queues/{queue}/messages/delete": on_queue("poll"),
    "POST /v1/queues/{queue}/messages/release": on_queue("poll"),
    "POST /v1/queues/{queue}/messages/move": (("poll", HERE), ("post", TO)),
    "POST /v1/queues/{queue}/messages/{message}/resend": (("poll", HERE), ("post", TO)),
    "POST /v1/queues/{queue}/claim": on_queue("poll"),
    "POST /v1/queues/{queue}/ack": on_queue("poll"),
    "POST /v1/queues/{queue}/renew": on_queue("poll"),
    "POST /v1/queues/{queue}/release": on_queue("poll"),
    "POST /v1/queues/{queue}/purge": on_queue("poll"),
    "GET /v1/queues/{queue}/shipments": on_queue("poll"),
    "PUT /v1/queues/{queue}/shipments/{consumer}/{number}": on_queue("poll"),
    "GET /v1/queues/{queue}/shipments/{consumer}/{number}": on_queue("poll"),
    "GET /v1/queues/{queue}/shipments/{consumer}/{number}/messages": on_queue("poll"),
    "POST /v1/queues/{queue}/shipments/{consumer}/{number}/settle": on_queue("poll"),
    "POST /v1/queues/{queue}/shipments/{consumer}/{number}/release": on_queue("poll"),
    "POST /v1/queues/{queue}/shipments/{consumer}/{number}/heartbeat": on_queue("poll"),
    "PUT /v1/queues/{queue}/leases/{name}": on_queue("poll"),
    "GET /v1/queues/{queue}/leases/{name}": on_queue("poll"),
    "DELETE /v1/queues/{queue}/leases/{name}": on_queue("poll"),
    "POST /v1/moves": (("poll", HERE), ("post", TO)),
    "GET /v1/moves": on_all("get_status"),
    "GET /v1/moves/{move}": on_queue("get_status/poll"),  # a key that may start a move may watch it
    "POST /v1/moves/{move}/cancel": on_queue("poll"),
    "GET /v1/ledger": on_all("poll"),
    "GET /v1/ledger/exports": on_all("poll"),
    "PUT /v1/ledger/exports/{consumer}/{number}": on_all("poll"),
    "GET /v1/ledger/exports/{consumer}/{number}": on_all("poll"),
    "GET /v1/ledger/exports/{consumer}/{number}/rows": on_all("poll"),
    "POST /v1/ledger/exports/{consumer}/{number}/settle": on_all("poll"),
    "GET /v1/actions": on_all("admin"),
    "POST /v1/store/shrink": on_all("admin"),
    "GET /v1/keys": on_all("admin"),
    "POST /v1/keys": on_all("admin"),
    "PATCH /v1/keys/{name}": on_all("admin"),
    "POST /v1/keys/{name}/rotate": on_all("admin"),
    "POST /v1/keys/{name}/retire": on_all("admin"),
    "DELETE /v1/keys/{name}": on_all("admin"),
    **{
        route.replace("BASE", base): needed
        for base in ("/queue/1", "/dedupq/1")
        for route, needed in {
            "POST BASE/_sendbatch": on_queue("post"),
            "POST BASE/{queue}/send": on_queue("post"),
            "POST BASE/{queue}/sendbatch": on_queue("post"),
            "GET BASE/{queue}/poll": on_queue("poll"),
            "POST BASE/{queue}/ack": on_queue("poll"),
            "POST BASE/{queue}/renew": on_queue("poll"),
            "GET BASE/{queue}/peek": on_queue("poll"),
            "GET BASE/{queue}/size": on_queue("get_status"),
            "GET BASE/{queue}/claimcount": on_queue("get_status"),
            "DELETE BASE/{queue}": on_queue("poll"),
            "POST BASE/{queue}/unclaimall": on_queue("poll"),
            "POST BASE/_move": (("poll", HERE), ("post", TO)),
            "GET BASE/_move/{reference}": on_queue("get_status"),
        }.items()
    },
    # A route of SQS is for every operation: each stands here with one of them. All are in tests/faces/sqs.
    "POST /": on_queue("post"),
    "GET /": on_queue("get_status"),
    "POST /000000000000/{name}": on_queue("poll"),
    "GET /000000000000/{name}": on_queue("get_status"),
    "POST /{account}/{name}": on_queue("admin"),
    "GET /{account}/{name}": on_queue("post"),
    "GET /{queue}": on_queue("get_status"),
    "PUT /{queue}": on_queue("admin"),
    "DELETE /{queue}": on_queue("admin"),
    "POST /{queue}/messages": on_queue("post"),
    "GET /{queue}/messages": on_queue("poll"),
    "DELETE /{queue}/messages/{id}": on_queue("poll"),
}

KEYS: dict[str, tuple[str, ...]] = {
    "revoked": ("queue|*|*",),
    "expired": ("queue|*|*",),
    "retired": ("queue|*|*",),
    "post only": ("queue|post|own-*",),
    "poll only": ("queue|poll|own-*",),
    "get_status only": ("queue|get_status|own-*",),
    "admin only": ("queue|admin|own-*",),
    "all on own": ("queue|*|own-*",),
    "all but own": ("queue|*|foreign-*",),
    "admin of all": ("queue|admin|*",),
    "get_status of all": ("queue|get_status|*",),
    "everything": ("queue|*|*",),
}
UNKNOWN = ("none", "unknown", "revoked", "expired", "retired")
QUEUES = ("own-q", "foreign-q")


def routes() -> list[tuple[str, Route]]:
    broker, keyring = None, None  # no handler runs here
    return [
        (name, route) for name, face in FACES.items() for route in face.routes(broker, keyring, Config(), frozenset())
    ]


def name_of(route: Route) -> str:
    return f"{route.method} {route.pattern}"


def routes_without_keys() -> list[tuple[str, Route]]:
    """In an order in which the first key, which shuts all others, is made last."""
    return sorted(routes(), key=lambda found: name_of(found[1]) == "POST /v1/keys")


def test_every_route_asks_something_and_stands_in_the_table() -> None:
    for _, route in routes():
        assert isinstance(route.permission, Permission), f"{name_of(route)} has no permission"
        assert name_of(route) in NEEDS, f"{name_of(route)} is not in the table"
    assert set(NEEDS) == {name_of(route) for _, route in routes()}


def may(kind: str, needed: tuple[tuple[str, str], ...], queue: str) -> bool:
    """A second opinion on the rules, as simple as the keys of this test allow."""

    def permits(action: str, about: str) -> bool:
        for rule in KEYS[kind]:
            _, allowed, glob = rule.split("|")
            if allowed in (action, "*") and (glob == "*" or about.startswith(glob.removesuffix("*"))):
                return True
        return False

    if needed == ANY_KEY:
        return kind not in UNKNOWN
    if not needed:
        return True
    return kind not in UNKNOWN and all(
        any(permits(action, about.replace(HERE, queue)) for action in actions.split("/")) for actions, about in needed
    )


class Prepared(NamedTuple):
    """What requests name: a message, a move that has ended, and the numbers of an open shipment and export."""

    message: str
    move: str = "x"
    shipment: int = 1
    export: int = 1


@dataclass(frozen=True)
class Asked:
    """A request that would succeed with a key that permits it."""

    method: str
    path: str
    body: object


class World:
    """The store of the server, opened beside it."""

    def __init__(self, store: Store, kinds: Mapping[str, tuple[str, ...]] = KEYS) -> None:
        self.store = store
        self.secrets = {kind: keys.mint() for kind in kinds} | {"unknown": keys.mint()}
        with store.unit() as unit:
            for kind, rules in kinds.items():
                digest = keys.digest(store.secret, self.secrets[kind].encode())
                unit.keys.create(Key(kind.replace(" ", "-"), digest, rules, 0))
            if "revoked" in kinds:
                unit.keys.revoke("revoked", 1)
            if "expired" in kinds:
                unit.keys.update("expired", system_clock())
            if "retired" in kinds:  # its secret: the key has another one now
                unit.keys.rotate("retired", keys.digest(store.secret, keys.mint().encode()), None, 1)
                unit.keys.retire("retired")

    def prepare(self, queue: str) -> Prepared:
        """The queue is there, with one message, another one in a shipment, and a lease."""
        now = system_clock()
        wait_until(lambda: not self.moving())
        with self.store.unit() as unit:
            for name in (queue, TO):
                settings = Settings(dedup=Dedup.CLAIM if name.startswith("dedupq/") else Dedup.OFF)
                if unit.find_queue(name) is None:
                    unit.create_queue(name, settings, now)
                unit.resume_queue(name, now)
            unit.send(queue, [Draft(b"to be exported")], now)
            unit.messages.purge(queue, now, 1_000, unit.messages.last_seq())
            shipment, export = self.shipment(unit, queue, now), self.export(unit, now)
            unit.leases.take(queue, "drain", "me", now, 60_000)
            [sent] = unit.send(queue, [Draft(b"1", "application/json")], now)
            reference = f"move-{unit.messages.last_seq()}"
            unit.moves.start(reference, f"{queue}-none", TO, now)
            unit.moves.step(reference, now, 1)
            while unit.sweep(now, 1_000, 0):  # else the server does, at any moment
                pass
        return Prepared(sent.id, reference, shipment, export)

    @staticmethod
    def shipment(unit: Unit, queue: str, now: int) -> int:
        last = unit.shipments.list(queue, "lake", 0, 1_000, now)[-1:]
        for one in last:
            if one.state is ShipmentState.OPEN:
                while unit.shipments.release(ShipmentRef(queue, "lake", one.number), now, 1_000):
                    pass
        number = last[0].number + 1 if last else 1
        unit.messages.purge(queue, now, 1_000, unit.messages.last_seq())
        unit.send(queue, [Draft(b"shipped")], now)
        assert unit.shipments.claim(ShipmentRef(queue, "lake", number), 1, now, 60_000)
        return number

    @staticmethod
    def export(unit: Unit, now: int) -> int:
        last = unit.exports.list("lake", 0, 1_000, now)[-1:]
        for one in last:
            unit.exports.settle(ExportRef("lake", one.number), now)
        number = last[0].number + 1 if last else 1
        assert unit.exports.claim(ExportRef("lake", number), 1_000, now)
        return number

    def moving(self) -> list[str]:
        """A move that was allowed goes on in the background."""
        with self.store.unit(write=False) as unit:
            return unit.moves.unfinished()

    def snapshot(self) -> list[object]:
        with self.store.unit(write=False) as unit:
            queues = unit.list_queues(0, 1_000).queues
            counts = [(unit.ledger.tally(queue.name), unit.messages.peek(queue.name, 1_000)) for queue in queues]
            shipments = [unit.shipments.list(queue.name, None, 0, 1_000, system_clock()) for queue in queues]
            leases = [unit.leases.find(queue.name, "drain", system_clock()) for queue in queues]
            kept = [shipments, leases, unit.exports.list(None, 0, 1_000, system_clock()), unit.ledger.rows(0, 10_000)]
            return [queues, counts, unit.keys.list(), unit.moves.unfinished(), unit.actions.list(None, 1_000), kept]


OF_SQS = {
    "POST /": "Action=SendMessage&QueueUrl={queue}&MessageBody=x",
    "GET /": "Action=GetQueueAttributes&QueueUrl={queue}&AttributeName.1=All",
    "POST /000000000000/{name}": "Action=ReceiveMessage",
    "GET /000000000000/{name}": "Action=ListQueueTags",
    "POST /{account}/{name}": "Action=SetQueueAttributes&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=31",
    "GET /{account}/{name}": "Action=SendMessage&MessageBody=x",
}


def asked_of_sqs(route: Route, queue: str) -> Asked:
    path = route.pattern.replace("{name}", queue).replace("{account}", "123456789012")
    parameters = OF_SQS[name_of(route)].replace("{queue}", queue)
    if route.method == "GET":
        return Asked("GET", f"{path}?{parameters}", None)
    return Asked("POST", path, parameters)


def asked(route: Route, queue: str, prepared: Prepared) -> Asked:
    if name_of(route) in OF_SQS:
        return asked_of_sqs(route, queue)
    message = prepared.message
    path = route.pattern
    if "/v1/keys/{name}" in path:
        path = path.replace("{name}", "revoked")  # nothing changes it any more
    if path.endswith("/leases/{name}"):
        path = path.replace("{name}", "drain?holder=me" if route.method == "DELETE" else "drain")
    replaced = {"{queue}": queue, "{name}": queue, "{id}": message, "{message}": message, "{reference}": prepared.move}
    replaced["{move}"] = prepared.move
    number = prepared.export if path.startswith("/v1/ledger/") else prepared.shipment
    replaced |= {"{consumer}": "lake", "{number}": str(number)}
    for parameter, value in replaced.items():
        path = path.replace(parameter, value)
    if path.endswith("/_move"):
        path += f"?from={queue}&to={TO}"
    bodies: dict[str, Callable[[], object]] = {
        "/_sendbatch": lambda: {queue: [1]},
        "/send": lambda: [1],
        "/sendbatch": lambda: [1],
        "/v1/keys/revoked": lambda: {"expires_at": None},
        "/v1/keys": lambda: {"name": f"made-for-{message}", "rules": ["queue|post|x"]},
        "/messages": lambda: {"messages": [{"body": "x"}]},
        "/v1/moves": lambda: {"source": queue, "target": TO},
        "/messages/delete": lambda: {"ids": [message]},
        "/messages/move": lambda: {"ids": [message], "target": TO},
        "/leases/drain": lambda: {"holder": "me", "hold_ms": 60_000},
        "/resend": lambda: {"message": {"body": "x"}, "target": TO},
    }
    body = next((make() for end, make in bodies.items() if path.endswith(end)), None)
    if path.endswith(("/ack", "/renew", "/release")) and "/shipments/" not in path:
        body = {"receipts": [message]} if path.startswith("/v1/") else [message]
        if path.endswith("/messages/release"):
            body = {"ids": [message]}
        if path.startswith("/v1/") and path.endswith("/renew"):
            body = {"receipts": [message], "hold_ms": 1}
    if path.startswith("/queues/"):
        body = PLAIN
    return Asked(route.method, path, None if route.method in ("GET", "DELETE") else body)


def in_the_store(route: Route, queue: str) -> str:
    return f"dedupq/{queue}" if route.pattern.startswith("/dedupq/") else queue


def send(talk: Talk, request: Asked, secret: str | None, method: str | None = None) -> Reply:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    return talk(method or request.method, request.path, request.body, **headers)


@contextmanager
def running(tmp_path: Path, faces: str, kinds: Mapping[str, tuple[str, ...]] = KEYS) -> Iterator[tuple[World, Talk]]:
    url = f"sqlite:///{tmp_path}/{faces}.db"
    store = open_store(url)
    world = World(store, kinds)
    # Here wrong keys come by the hundred.
    server = ThreadServer(url, timings=Timings(wrong_keys=1e9, key_uses_s=1e9), faces=faces)
    try:
        with server.talk() as talk:
            yield world, talk
    finally:
        server.stop()
        store.close()


def check_refusal(reply: Reply, face: str, kind: str) -> None:
    if face == "emodb":
        assert (reply.status, reply.json) == (403, {"reason": "not authorized"})
    elif face == "sqs":
        code = {"none": "MissingAuthenticationToken"}.get(
            kind, "InvalidClientTokenId" if kind in UNKNOWN else "AccessDenied"
        )
        assert (reply.status, f"<Code>{code}</Code>" in reply.body.decode()) == (403, True), (kind, reply.body)
    elif kind in UNKNOWN:
        assert (reply.status, list(reply.json)) == (401, ["error"])
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    else:
        assert (reply.status, list(reply.json)) == (403, ["error"])


@pytest.mark.parametrize("face", FACES)
def test_who_may_do_what(tmp_path: Path, face: str) -> None:
    checked = 0
    with running(tmp_path, face) as (world, talk):
        for (of_face, route), queue in product(routes(), QUEUES):
            if of_face != face:
                continue
            needed, name = NEEDS[name_of(route)], in_the_store(route, queue)
            prepared = world.prepare(name)
            before = world.snapshot()
            allowed = [kind for kind in ("none", "unknown", *KEYS) if may(kind, needed, queue)]
            refused = [kind for kind in ("none", "unknown", *KEYS) if kind not in allowed]
            request = asked(route, queue, prepared)
            for kind in refused:
                secret = world.secrets.get(kind)
                check_refusal(send(talk, request, secret), face, kind)
                if route.head:
                    assert send(talk, request, secret, "HEAD").status in (401, 403), (name_of(route), kind)
            assert world.snapshot() == before, f"{name_of(route)} was refused and has changed something"
            for kind in allowed:
                request = asked(route, queue, world.prepare(name))
                reply = send(talk, request, world.secrets.get(kind))
                # A queue that is to be made is there already: 409 comes from behind the gate.
                assert reply.status < 300 or reply.status == 409, (name_of(route), kind, reply.status, reply.body)
                if route.head:
                    assert send(talk, request, world.secrets.get(kind), "HEAD").status == reply.status
            checked += len(allowed) + len(refused)
    assert checked == sum(of_face == face for of_face, _ in routes()) * len(QUEUES) * (len(KEYS) + 2)


def test_all_faces_on_one_port_refuse_in_their_own_manner(tmp_path: Path) -> None:
    with running(tmp_path, ",".join(FACES)) as (world, talk):
        for face, route in routes():
            if NEEDS[name_of(route)]:
                prepared = world.prepare(in_the_store(route, "own-q"))
                check_refusal(send(talk, asked(route, "own-q", prepared), None), face, "none")


def test_without_any_key_every_route_is_open(tmp_path: Path) -> None:
    server = ThreadServer(f"sqlite:///{tmp_path}/open.db")
    try:
        with server.talk() as talk:
            for _, route in routes_without_keys():
                request = asked(route, "own-q", Prepared("0" * 36))
                assert send(talk, request, None).status not in (401, 403), name_of(route)
    finally:
        server.stop()
