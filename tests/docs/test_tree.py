"""The tree in README.md is the tree on the disk, and the modules in it explain themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, name_of

SOURCE = ROOT / "src" / "penstock"
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 400
_ENTRY = re.compile(r"^((?:│   |    )*)[├└]── (\S+)")


def drawn() -> list[Path]:
    [tree] = [block.text for block in blocks(ROOT / "README.md") if block.text.startswith("src/penstock/\n")]
    parents: list[Path] = [SOURCE]
    found = []
    for line in tree.splitlines()[1:]:
        entry = _ENTRY.match(line)
        assert entry, line
        depth = len(entry[1]) // 4
        path = parents[depth] / entry[2]
        del parents[depth + 1 :]
        parents.append(path)
        found.append(path)
    return found


def test_what_is_drawn_exists() -> None:
    for path in drawn():
        assert path.exists(), path


def test_every_package_and_every_module_at_the_top_is_drawn() -> None:
    packages = {module.parent for module in MODULES if module.name == "__init__.py"} - {SOURCE}
    at_the_top = {module for module in MODULES if module.parent == SOURCE and not module.name.startswith("__")}
    assert packages | at_the_top <= set(drawn())


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text())), f"{name_of(module)} has no docstring"


@pytest.mark.parametrize("file", [*MODULES, *sorted(SOURCE.rglob("*.sql"))], ids=name_of)
def test_a_long_file_gives_its_reason(file: Path) -> None:
    text = file.read_text()
    if len(text.splitlines()) > MOST_LINES:
        first_lines = (ast.get_docstring(ast.parse(text)) or "") if file.suffix == ".py" else text[:1_000]
        assert "One file because" in first_lines, f"{name_of(file)} is long and does not say why"
