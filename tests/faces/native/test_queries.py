"""Parameters of a query: those in the document are heard, all others are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.timings import Timings
from tests.faces.native.conftest import Native
from tests.openapi.conftest import DOCUMENT

PLACES = {"{queue}": "q", "{consumer}": "lake", "{number}": "1", "{name}": "nobody"}


def operations() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Method, path and documented parameters of all that `/v1` knows."""
    for path, methods in DOCUMENT["paths"].items():
        if path.startswith("/v1/"):
            for method, operation in methods.items():
                if isinstance(operation, dict) and "responses" in operation:
                    known = [one["name"] for one in operation.get("parameters", ()) if one.get("in") == "query"]
                    yield method.upper(), path, tuple(known)


OPERATIONS = list(operations())


@pytest.mark.parametrize(("method", "path", "known"), OPERATIONS, ids=[" ".join(one[:2]) for one in OPERATIONS])
def test_unknown_parameters_are_refused_and_known_ones_are_not(
    native: Native, method: str, path: str, known: tuple[str, ...]
) -> None:
    for place, value in PLACES.items():
        path = path.replace(place, value)
    for query in ("surprise=1", "surprise", "limit_=1", "Limit=1", *[f"{name}=1&surprise=1" for name in known]):
        reply = native.talk(method, f"{path}?{query}", content_type="application/json")
        assert reply.status == 400, (query, reply.body)
        if method != "HEAD":
            assert "not a query parameter here" in reply.json["error"]
            assert all(name in reply.json["error"] for name in known)
    for name in known:
        reply = native.talk(method, f"{path}?{name}=1")
        assert b"query parameter" not in reply.body
    assert native.count()["total"] == 0


def test_a_limit_that_belongs_into_the_body_is_not_passed_over(native: Native) -> None:
    native.send("1", "2")
    reply = native.talk("POST", "/v1/queues/q/claim?limit=2", {})
    assert (reply.status, native.count()["ready"]) == (400, 2)
    assert "'limit' is not a query parameter here: this request takes none" in reply.json["error"]


@pytest.mark.parametrize("timings", [Timings(probe_s=60)])
@pytest.mark.parametrize("path", ["/queues?surprise=1", "/queue/1/orders/size?partitioned=true", "/health?surprise=1"])
def test_other_apis_pass_over_what_they_do_not_know(native: Native, path: str) -> None:
    assert native.talk("GET", path).status == 200
