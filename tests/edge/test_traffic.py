"""What the edge answers is counted: by route, by status and by the time it took."""

from __future__ import annotations

import pytest

from penstock.edge.http import BOUNDS, WAIT_BOUNDS, Request, Response, Traffic
from penstock.edge.limits import EdgeLimits
from penstock.edge.listener import Listener
from penstock.edge.router import Route, Router
from penstock.pending import Pending


def test_a_time_on_a_bound_belongs_to_the_bucket_below_it() -> None:
    traffic = Traffic()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1], 1e9):
        traffic.note(200, seconds, waits=False)
    assert traffic.buckets == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1]
    assert traffic.seconds == pytest.approx(1e9, rel=1e-6)
    assert traffic.wait_buckets == [0] * (len(WAIT_BOUNDS) + 1)


def test_requests_that_wait_are_timed_apart_and_counted_together() -> None:
    traffic = Traffic()
    traffic.note(200, 20.0, waits=True)
    traffic.note(200, 0.0, waits=False)
    traffic.note(404, 0.0, waits=False)
    assert traffic.statuses == {200: 2, 404: 1}
    assert sum(traffic.buckets) == 2
    assert (sum(traffic.wait_buckets), traffic.wait_seconds) == (1, 20.0)


def test_parts_have_the_labels_of_the_whole_and_a_name() -> None:
    traffic = Traffic("sqs", "POST", "/")
    part = traffic.part("SendMessage")
    assert traffic.part("SendMessage") is part
    assert (part.api, part.method, part.route) == ("sqs", "POST", "SendMessage")


def traffic_of(edge, method: str, path: str) -> Traffic:
    return edge.router.match(method, path)[0].traffic


async def test_each_route_counts_its_own(edge):
    client = await (await edge.start()).connect()
    # The same several times: the second and third are served without the parser.
    for _ in range(3):
        await client.ask(edge.get("/queues/a"))
        await client.ask(edge.get("/queues/b"))
        await client.ask(edge.post("/echo", b"x"))
    await client.ask(b"HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n", head=True)
    await client.ask(edge.get("/fail"))
    assert traffic_of(edge, "GET", "/queues/a").statuses == {200: 6}
    assert traffic_of(edge, "POST", "/echo").statuses == {200: 3}
    assert traffic_of(edge, "GET", "/echo").statuses == {200: 1}
    assert traffic_of(edge, "GET", "/fail").statuses == {500: 1}
    assert edge.router.unmatched.statuses == {}
    assert sum(traffic_of(edge, "GET", "/queues/a").buckets) == 6


async def test_what_matches_no_route_and_what_is_not_a_request(edge):
    client = await (await edge.start()).connect()
    for _ in range(3):
        await client.ask(edge.get("/nowhere"))
        await client.ask(edge.post("/queues/a", b""))
    await client.ask(b"nonsense\r\n\r\n")
    assert edge.router.unmatched.statuses == {404: 3, 405: 3, 400: 1}


async def test_a_request_that_is_refused_counts_for_its_route(edge):
    def guard(request: Request, _route: Route, _client: object) -> Response | None:
        return Response(401) if b"x-key" not in request.headers else None

    client = await (await edge.start(guard=guard)).connect()
    for _ in range(2):
        await client.ask(edge.get("/echo"))
    assert (await client.ask(edge.post("/small", b"x" * 11, "X-Key: a"))).status == 413
    assert traffic_of(edge, "GET", "/echo").statuses == {401: 2}
    assert traffic_of(edge, "POST", "/small").statuses == {413: 1}


async def test_a_connection_too_many_is_counted(edge):
    await edge.start(limits=EdgeLimits(connections=1))
    first = await edge.connect()
    await first.ask(edge.get())
    second = await edge.connect()
    assert (await second.reply()).status == 503
    assert edge.router.unmatched.statuses == {503: 1}


async def test_the_time_is_that_from_the_request_to_its_answer(edge):
    now = 100.0
    answers: list[Pending[Response]] = []

    def wait(request: Request) -> Pending[Response]:
        request.waits = request.query == "long"
        answers.append(Pending())
        return answers[-1]

    edge.router = Router([Route("GET", "/slow", wait)])
    edge.listener = Listener(edge.router, clock=lambda: now)
    await edge.listener.start("127.0.0.1", 0)
    client = await edge.connect()
    for query, seconds in (("", 0.3), ("long", 7.0)):
        client.send(edge.get(f"/slow?{query}"))
        await edge.until(lambda: bool(answers))
        now += seconds
        answers.pop().resolve(Response(200))
        assert (await client.reply()).status == 200
    traffic = traffic_of(edge, "GET", "/slow")
    assert (traffic.seconds, traffic.wait_seconds) == (pytest.approx(0.3), pytest.approx(7.0))
    assert traffic.buckets[BOUNDS.index(0.5)] == sum(traffic.buckets) == 1
    assert traffic.wait_buckets[WAIT_BOUNDS.index(10.0)] == sum(traffic.wait_buckets) == 1


async def test_a_request_whose_client_has_gone_is_not_an_answer(edge):
    client = await (await edge.start()).connect()
    client.send(edge.get("/wait"))
    await edge.until(lambda: bool(edge.pending))
    edge.pending[0].on_cancel = lambda: True
    await client.close()
    await edge.gone()
    assert traffic_of(edge, "GET", "/wait").statuses == {}
