"""Every link of the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, name_of, prose_of, sections, text_of

_LINK = re.compile(r"\[([^\]\[]+)\]\(([^)\s]+)\)")
_TEST = re.compile(r"`(?:(\w+)::)?(test_\w+)`")


def links(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in _LINK.finditer(prose_of(page))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links(page: Path) -> None:
    for _, target in links(page):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} does not exist"
        assert linked.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading; there are {sorted(anchors(linked))}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_linked_test_is_in_the_linked_file(page: Path) -> None:
    for text, target in links(page):
        if not target.endswith(".py") or "/test_" not in target:
            continue
        named = _TEST.fullmatch(text)
        assert named, f"a link to {target} names the test that proves it, not {text!r}"
        assert re.search(rf"^ *(async )?def {named[2]}\(", (page.parent / target).read_text(), re.MULTILINE), (
            f"{target} has no {named[2]}"
        )


@pytest.mark.parametrize(("page", "least"), [(DOCS / "guarantees.md", 30), (ROOT / "SECURITY.md", 12)])
def test_every_guarantee_has_a_test(page: Path, least: int) -> None:
    rows = [line for line in prose_of(page).splitlines() if line.startswith("| **")]
    assert len(rows) > least
    for row in rows:
        assert re.search(r"\]\((\.\./)?tests/", row), f"a promise without a test: {row}"


def test_the_readme_links_each_guarantee_to_its_explanation() -> None:
    [text] = [section.text for section in sections(ROOT / "README.md") if section.title == "Guarantees"]
    promises = re.findall(r"^- (.*)", text, re.MULTILINE)
    assert len(promises) == 11
    for promise in promises:
        assert re.match(r"\[\*\*[^]]+\*\*\]\(docs/\w+\.md", promise), promise


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    todo = [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / target.partition("#")[0]).resolve() for _, target in links(page)]
            todo += [target for target in targets if target.suffix == ".md"]
    assert set(PAGES) <= reached


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([\w-]+)", text_of(page))) | set(
            re.findall(r"^make ([\w-]+)", text_of(page), re.MULTILINE)
        )
        assert named <= targets, f"{name_of(page)}: {named - targets}"
