"""Schemas of the values that the native API decodes and encodes, derived from the structs themselves.

A struct knows names and types. What it cannot know, limits and meanings, is added to its properties here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.faces.openapi.parts import Part

Refinements = Mapping[str, Part]


def taken(struct: type, refined: Refinements) -> dict[str, Part]:
    """The schema of a request, and of the structs inside it that are refined on their own."""
    return _derived(struct, refined)


def answered(struct: type, refined: Refinements) -> dict[str, Part]:
    """The schema of an answer: all of it is always there, whatever a struct has defaults for."""
    found = _derived(struct, refined)
    for shape in found.values():
        if "properties" in shape:
            shape["required"] = list(shape["properties"])
    return found


def _derived(struct: type, refined: Refinements) -> dict[str, Part]:
    _, found = msgspec.json.schema_components([struct], ref_template="#/components/schemas/{name}")
    made = {name: _tidy(shape) for name, shape in found.items()}
    properties = made[struct.__name__]["properties"]
    for name, more in refined.items():
        properties[name] = _refined(properties[name], more)
    return made


def _tidy(shape: dict[str, Any]) -> Part:
    """Names are said by the references, and a docstring loses the indentation of its source."""
    tidy = {key: value for key, value in shape.items() if key != "title"}
    if "description" in tidy:
        tidy["description"] = " ".join(tidy["description"].split())
    if tidy.get("required") == []:
        del tidy["required"]
    return tidy


def _refined(shape: Part, more: Part) -> Part:
    """Rules belong to the type they are about, not to the null beside it; a description belongs to the whole."""
    described = {"description": more["description"]} if "description" in more else {}
    rules = {key: value for key, value in more.items() if key != "description"}
    if "anyOf" not in shape:
        return {**shape, **rules, **described}
    options = [option if option == {"type": "null"} else {**option, **rules} for option in shape["anyOf"]]
    return {**shape, "anyOf": options, **described}
