"""CONTRIBUTING.md sends newcomers to rooms that are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, prose_of, sections

PAGE = ROOT / "CONTRIBUTING.md"
PATHS = sorted(
    set(re.findall(r"`((?:src|tests|docs|devtools|bench|soak|examples)/[\w./-]*\w/?|\w+\.toml)`", prose_of(PAGE)))
)


def test_paths_are_named() -> None:
    assert len(PATHS) > 20


@pytest.mark.parametrize("path", PATHS)
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("title", ["How to add a verb", "How to add a face", "How to add an engine"])
def test_the_recipes_are_there(title: str) -> None:
    assert title in [section.title for section in sections(PAGE)]
