"""Matching: static before parameters, no way back, decoding, and who is allowed."""

from __future__ import annotations

import json

import pytest

from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Errors, Route, Router, Target


def named(name: str):
    return lambda _request: Response(200, name.encode())


ROUTES = [
    Route("GET", "/", named("root")),
    Route("GET", "/queues", named("list"), head=True),
    Route("PUT", "/queues/{name}", named("create")),
    Route("DELETE", "/queues/{name}", named("delete")),
    Route("GET", "/queues/{name}/stats", named("stats")),
    Route("GET", "/{queue}/messages", named("claim")),
    Route("DELETE", "/{queue}/messages/{id}", named("ack")),
]


def ask(method: str, path: str, router: Router | None = None) -> tuple[int, bytes, tuple[str, ...]]:
    route, params = (router or Router(ROUTES)).match(method, path)
    response = route.handler(Request(method, path, params=params))
    assert isinstance(response, Response)
    return response.status, response.body, params


@pytest.mark.parametrize(
    ("method", "path", "name", "params"),
    [
        ("GET", "/", b"root", ()),
        ("GET", "/queues", b"list", ()),
        ("HEAD", "/queues", b"list", ()),
        ("PUT", "/queues/a", b"create", ("a",)),
        ("PUT", "/queues/a%2Fb", b"create", ("a/b",)),
        ("PUT", "/queues/%C3%A9", b"create", ("é",)),
        ("PUT", "/queues/a+b", b"create", ("a+b",)),
        ("GET", "/queues/a/stats", b"stats", ("a",)),
        ("GET", "/jobs/messages", b"claim", ("jobs",)),
        ("DELETE", "/jobs/messages/7", b"ack", ("jobs", "7")),
        ("PUT", "/%71ueues/a", b"create", ("a",)),
    ],
)
def test_match(method: str, path: str, name: bytes, params: tuple[str, ...]):
    assert ask(method, path) == (200, name, params)


@pytest.mark.parametrize(
    "path",
    ["", "*", "queues", "//", "/queues/", "/queues//stats", "//messages", "/jobs/messages/", "/queues/a/b"],
)
def test_no_match(path: str):
    assert ask("GET", path)[0] == 404


def test_a_known_first_segment_never_falls_through_to_a_parameter():
    for path in ("/queues/messages/7", "/%71ueues/messages/7"):
        assert ask("DELETE", path)[0] == 404
    assert ask("GET", "/queues/messages")[0] == 405


@pytest.mark.parametrize("path", ["/queues/%", "/queues/%a", "/queues/%zz", "/queues/%ff", "/%c3%28/messages"])
def test_bad_escapes(path: str):
    assert ask("PUT", path)[0] == 400


def test_the_wrong_method_is_told_the_right_ones():
    route, _ = Router(ROUTES).match("GET", "/queues/a")
    response = route.handler(Request("GET", "/queues/a"))
    assert isinstance(response, Response)
    assert response.status == 405
    assert (b"Allow", b"DELETE, PUT") in response.headers
    assert json.loads(response.body) == {"error": "method not allowed"}


def test_head_is_refused_where_get_has_effects():
    assert ask("HEAD", "/jobs/messages")[0] == 405
    assert ask("HEAD", "/")[0] == 405


def test_faces_put_errors_in_their_own_words():
    errors = Errors(
        not_found=lambda request: Response(404, request.path.encode()),
        method_not_allowed=lambda _request, allowed: Response(405, ",".join(allowed).encode()),
    )
    router = Router(ROUTES, errors)
    assert ask("GET", "/x", router)[:2] == (404, b"/x")
    assert ask("POST", "/queues", router)[:2] == (405, b"GET,HEAD")


def test_two_routes_for_one_place_are_a_mistake():
    with pytest.raises(ValueError, match="two routes"):
        Router([Route("GET", "/{a}", named("one")), Route("GET", "/{b}", named("two"))])
    with pytest.raises(ValueError, match="slash"):
        Router([Route("GET", "a", named("one"))])


def test_a_route_carries_its_permission_and_rule():
    route = Route("GET", "/a", named("a"), BodyRule(5, cut=True), permission="read")
    found, _ = Router([route]).match("GET", "/a")
    assert found is route
    assert (found.permission, found.body.limit, found.body.cut) == ("read", 5, True)


def test_a_request_needs_no_socket_and_its_repr_tells_no_secrets():
    request = Request("GET", "/x", query="a=%C3%A9&b", headers={b"authorization": b"secret"}, body=b"secret")
    assert request.query_params() == {"a": "é", "b": ""}
    assert request.query_params() is request.query_params()
    assert "secret" not in repr(request) + repr(Response(200, b"secret"))


def resolved(router: Router, name: bytes, url: bytes) -> Target:
    """As a connection asks that has looked in vain."""
    return router.resolve(name, url, name + b" " + url)


def test_only_a_target_that_comes_again_is_kept():
    router = Router((Route("DELETE", "/messages/{id}", named("ack")), Route("GET", "/queues", named("list"))))
    for number in range(10_000):
        assert resolved(router, b"DELETE", b"/messages/%d" % number)[4] == (str(number),)
    assert router.targets == {}
    found = [resolved(router, b"GET", b"/queues?limit=1") for _ in range(2)]
    assert router.targets == {b"GET /queues?limit=1": found[1]}
    assert found[0] == found[1]
    long = b"/queues?" + b"a" * 300
    assert [resolved(router, b"GET", long)[2] for _ in range(3)] == ["a" * 300] * 3
    assert len(router.targets) == 1
