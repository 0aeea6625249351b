"""docs/compatibility.md promises what is there: no name, code or command that the code does not have."""

from __future__ import annotations

import importlib
import re

import pytest

from penstock.cli import main
from tests.docs.pages import DOCS, sections


def section(title: str) -> str:
    [text] = [section.text for section in sections(DOCS / "compatibility.md") if section.title == title]
    return text


def packages() -> dict[str, str]:
    """The packages of the table, with what the second column says about each."""
    rows = re.findall(r"^\| \[`(penstock[\w.]*)`\]\([^)]*\) \| (.*) \|$", section("Python"), re.MULTILINE)
    assert rows
    return dict(rows)


@pytest.mark.parametrize("package", packages())
def test_what_is_called_public_is_exported(package: str) -> None:
    exported = set(importlib.import_module(package).__all__)
    for name in re.findall(r"`(\w+)`", packages()[package]):
        assert name in exported | {"penstock"}, name


@pytest.mark.parametrize("package", [name for name, text in packages().items() if "all of" not in text])
def test_what_is_exported_is_called_public(package: str) -> None:
    assert set(importlib.import_module(package).__all__) <= set(re.findall(r"`(\w+)`", packages()[package]))


def test_every_name_of_the_client_stands_for_something() -> None:
    module = importlib.import_module("penstock.client")
    assert "all of `penstock.client.__all__`" in packages()["penstock.client"]
    for name in module.__all__:
        assert getattr(module, name, None) is not None, name


def test_the_exit_codes_are_those_of_the_command() -> None:
    said = dict(re.findall(r"^\| (\d+) \| (.*) \|$", section("Command line"), re.MULTILINE))
    told = dict(re.findall(r"^  (\d)  (.*)$", main.epilog, re.MULTILINE))
    assert said == {**told, "130": "interrupted"}
