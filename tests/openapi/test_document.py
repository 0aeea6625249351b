"""The document says what the routes are, no more and no less, and is served as it is built."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from penstock import __version__
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.faces.openapi import build
from penstock.faces.permission import Permission, Scope
from tests.keys.conftest import KeyStore
from tests.openapi.conftest import DOCUMENT, ROUTES
from tests.servers import ThreadServer
from tests.talk import Talk


def operations(document: Mapping[str, Any] = DOCUMENT) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def unnamed(path: str) -> str:
    """A path without the names of its parameters: OpenAPI knows no two paths that differ in those alone."""
    return re.sub(r"\{\w+\}", "{}", path)


def parts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(inner)


def resolved(document: Mapping[str, Any], part: dict[str, Any]) -> Any:
    found: Any = document
    for key in part["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return found


# The routes


def test_every_route_is_described_and_no_other() -> None:
    routes = [(route.method, route.pattern) for of_one in ROUTES.values() for route in of_one]
    routes += [("HEAD", route.pattern) for of_one in ROUTES.values() for route in of_one if route.head]
    described = [(method, path) for method, path, _ in operations()]
    assert sorted((method, unnamed(path)) for method, path in described) == sorted(
        (method, unnamed(pattern)) for method, pattern in routes
    )


def test_a_route_that_is_not_described_is_an_error() -> None:
    with pytest.raises(TypeError, match="GET /bare is not described"):
        build([Route("GET", "/bare", lambda _request: Response(200))])


def test_a_route_that_takes_signatures_says_so() -> None:
    described = ROUTES["native"][0]
    document = build([replace(described, permission=Permission("post", Scope.ASKS_ITSELF, signed=True))])
    [(_, _, operation)] = [one for one in operations(document) if one[0] == described.method]
    assert operation["security"][0] == {"signature": []}
    assert "signature" in document["components"]["securitySchemes"]
    assert "signature" not in DOCUMENT["components"]["securitySchemes"] or any(
        route.permission.signed for routes in ROUTES.values() for route in routes
    )
    schemathesis.openapi.from_dict(document).validate()


def test_no_two_paths_are_the_same() -> None:
    paths = list(map(unnamed, DOCUMENT["paths"]))
    assert len(paths) == len(set(paths))


def test_every_name_in_a_path_is_a_parameter_and_no_other() -> None:
    for method, path, operation in operations():
        named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"]
        assert re.findall(r"\{(\w+)\}", path) == named, (method, path)


# The form


@pytest.mark.parametrize("faces", [*([name] for name in ROUTES), list(ROUTES)], ids="+".join)
def test_the_document_is_openapi_3_1(faces: list[str]) -> None:
    document = build([route for name in faces for route in ROUTES[name]])
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == __version__
    schemathesis.openapi.from_dict(document).validate()
    for part in parts(document):
        if "$ref" in part:
            assert resolved(document, part)


def test_every_schema_is_one_and_its_examples_fit_it() -> None:
    for part in parts(DOCUMENT):
        shape = part.get("schema")
        if shape is None:
            continue
        # References are looked up in the document, so it is put around the schema.
        whole = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **shape,
            "components": DOCUMENT["components"],
        }
        validator = jsonschema_rs.Draft202012Validator(whole)
        examples = (
            [part["example"]] if "example" in part else [one["value"] for one in part.get("examples", {}).values()]
        )
        for example in examples:
            assert validator.is_valid(example), (example, shape)


def test_a_number_in_a_request_has_both_bounds_or_none() -> None:
    """A refusal names both."""
    taken = [operation["requestBody"] for _, _, operation in operations() if "requestBody" in operation]
    waiting, seen = list(parts(taken)), set()
    while waiting:
        part = waiting.pop()
        assert ("minimum" in part) == ("maximum" in part), part
        if "$ref" in part and part["$ref"] not in seen:
            seen.add(part["$ref"])
            waiting += parts(resolved(DOCUMENT, part))
    assert len(seen) > 10


def test_names_of_operations_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z][A-Za-z]+", name) for name in names)


def test_every_operation_has_a_tag_that_is_described() -> None:
    tags = [tag["name"] for tag in DOCUMENT["tags"]]
    assert {operation["tags"][0] for _, _, operation in operations()} == set(tags)
    assert all(tag["description"] for tag in DOCUMENT["tags"])


def test_everything_shared_is_used() -> None:
    referred = {part["$ref"] for part in parts(DOCUMENT) if "$ref" in part}
    for kind in ("schemas", "responses", "headers"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in referred, name


# Keys


def test_only_public_routes_ask_for_no_key() -> None:
    public = {path for _, path, operation in operations() if operation.get("security") == []}
    assert public == {"/health", "/health/live", "/health/ready"}
    for _, path, operation in operations():
        refusals = {"401", "403", "429"} & set(operation["responses"])
        # Without keys, a web page of another origin is refused everywhere.
        expected = {"403"} if path in public else {"401", "403", "429"}
        never = {"EmoDB queue": {"401"}, "EmoDB dedup queue": {"401"}, "SQS": {"401", "429"}}
        assert refusals == expected - never.get(operation["tags"][0], set()), path


def test_a_key_may_come_in_two_ways_or_not_at_all() -> None:
    assert DOCUMENT["security"] == [{"bearer": []}, {"header": []}, {}]
    assert DOCUMENT["components"]["securitySchemes"]["header"]["name"] == "X-BV-API-Key"


# Served


def test_it_is_served_as_it_is_built(talk: Talk) -> None:
    reply = talk("GET", "/openapi.json")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert reply.json == json.loads(json.dumps(DOCUMENT))
    assert talk("HEAD", "/openapi.json").headers["Content-Length"] == str(len(reply.body))


def test_only_what_is_served_is_described(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", faces="native")
    with running.talk() as talk:
        document = talk("GET", "/openapi.json").json
    running.stop()
    assert document == json.loads(json.dumps(build([*ROUTES["native"], *ROUTES["metrics"], *ROUTES["probes"]])))
    assert all(path.startswith(("/v1/", "/metrics", "/health/")) for path in document["paths"])


def test_mqcore_alone_keeps_its_paths(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", faces="mqcore")
    with running.talk() as talk:
        assert talk("GET", "/openapi.json").status == 404
        assert talk("PUT", "/openapi.json").status == 201
        assert talk("GET", "/openapi.json").body == b""
        assert talk("GET", "/docs").status == 404
    running.stop()


def test_no_key_is_needed_for_it(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    store.create("all", "queue|*|*")
    running = ThreadServer(store.url)
    with running.talk() as talk:
        assert talk("GET", "/v1/queues").status == 401
        assert talk("GET", "/openapi.json").status == 200
        assert talk("GET", "/docs").status == 200
    running.stop()
