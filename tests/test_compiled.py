"""What is compiled, and what compiled code must not hold."""

from __future__ import annotations

import ast
import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.compiled import is_compiled
from tests.docs.pages import ROOT

BUILD = runpy.run_path(str(ROOT / "setup.py"))


FILES = [ROOT / name for name in BUILD["files"]((*BUILD["ABOVE_THE_STORE"], *BUILD["STORE"]))]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_compiled_module_describes_a_struct(path: Path):
    """mypyc drops what stands in a class statement beside the bases, `frozen=True` say, and the types of its fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            assert not node.keywords, f"{node.name} has keywords"
            assert not {"Struct", "msgspec.Struct"} & set(bases), f"{node.name} is a struct"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_all_of_them_are_compiled_or_none(path: Path):
    spec = importlib.util.find_spec(name_of(path))
    assert spec is not None
    assert str(spec.origin).endswith(".py") != is_compiled()


def test_what_was_built_to_be_compiled_is():
    """Where there is no compiler, plain Python takes its place; where there is one, that must not go unnoticed."""
    if Path(penstock.__file__).is_relative_to(ROOT / "build" / "compiled"):
        assert is_compiled() or BUILD["compiler"]() is None or not BUILD["has_headers"]()


def test_a_build_that_should_compile_says_why_it_cannot(tmp_path):
    environ = {"PENSTOCK_COMPILE": "yes", "PENSTOCK_BUILD": str(tmp_path / "build"), "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel"], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "cannot be compiled: there is no C compiler here\n")
    assert os.listdir(tmp_path / "build") == []
