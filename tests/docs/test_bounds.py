"""What the pages say of parameters, keys and bounds is what the routes describe of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import limits
from penstock.faces.description import Op
from tests.docs.pages import DOCS, sections, text_of
from tests.docs.test_reference import FACES
from tests.openapi.conftest import DOCUMENT

OPERATIONS = {
    operation["operationId"]: operation for methods in DOCUMENT["paths"].values() for operation in methods.values()
}
ROUTES = [
    (page, route.describe, f"{route.method} {route.pattern}")
    for page, routes in FACES.items()
    for route in routes
    if isinstance(route.describe, Op)
]
NAMES = [title for _, _, title in ROUTES]
_RANGE = re.compile(r"(\d[\d,]*)\s+to\s+(\d[\d,]*)")
_BOUNDS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """A piece of the document and all in it, with what it refers to."""
    if isinstance(value, dict):
        if "$ref" in value:
            kind, name = value["$ref"].split("/")[2:]
            yield from parts(DOCUMENT["components"][kind][name])
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(inner)


def ranges(text: str) -> set[tuple[int, int]]:
    return {(int(low.replace(",", "")), int(high.replace(",", ""))) for low, high in _RANGE.findall(text)}


def bounds(value: Any) -> set[tuple[int, int]]:
    """Those that schemas have, and those that descriptions put into words."""
    found = {(1, limits.NAME_LENGTH)}
    for part in parts(value):
        found |= {(part[low], part[high]) for low, high in _BOUNDS if low in part and high in part}
        if isinstance(part.get("description"), str):
            found |= ranges(part["description"])
    return found


def words(text: str) -> set[str]:
    """All that stands in code, in pieces and as a whole."""
    code = " ".join(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    return set(re.findall(r"[\w-]+", code))


@pytest.mark.parametrize(("page", "op", "title"), ROUTES, ids=NAMES)
def test_every_parameter_and_key_of_a_request_is_on_its_page(page: str, op: Op, title: str) -> None:
    known = words(text_of(DOCS / page))
    assert {one.name for one in op.parameters if one.where != "path"} <= known, title
    body = OPERATIONS[op.id].get("requestBody", {})
    assert {name for part in parts(body) for name in part.get("properties", ())} <= known, title


@pytest.mark.parametrize(("page", "op", "title"), ROUTES, ids=NAMES)
def test_every_key_of_an_answer_is_on_its_page(page: str, op: Op, title: str) -> None:
    answers = [answer for status, answer in OPERATIONS[op.id]["responses"].items() if status < "300"]
    keys = {name for part in parts(answers) for name in part.get("properties", ())}
    # Examples that a test runs show a key as well as a table does.
    assert keys <= set(re.findall(r"[\w-]+", text_of(DOCS / page))), title


@pytest.mark.parametrize(("page", "op", "title"), ROUTES, ids=NAMES)
def test_a_range_in_the_section_of_a_route_is_one_that_it_has(page: str, op: Op, title: str) -> None:
    [section] = [one for one in sections(DOCS / page) if one.title.strip("`") == title]
    assert ranges(section.text) <= bounds(OPERATIONS[op.id])


def test_the_ranges_of_the_settings() -> None:
    [section] = [one for one in sections(DOCS / "native.md") if "| `visibility_ms` |" in one.text]
    assert ranges(section.text) == bounds(DOCUMENT["components"]["schemas"]["SettingsChange"]) - {
        (1, limits.NAME_LENGTH)
    }


def test_every_tag_of_the_document_is_on_its_page() -> None:
    named = re.sub(r"\s+", " ", text_of(DOCS / "openapi.md"))
    for tag in DOCUMENT["tags"]:
        assert f"`{tag['name']}`" in named
