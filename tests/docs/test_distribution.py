"""The name `penstock` is another project's on PyPI: nothing of ours may send a reader there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from penstock.extras import WHEEL, how_to_get
from tests.docs.pages import PAGES, ROOT, name_of

# What a changelog says about an earlier version stands.
READ = [page for page in PAGES if page.name != "CHANGELOG.md"]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html", ".js", ".sql"))
_FOREIGN = re.compile(
    r"""(?:pip install|uv add|uv pip install|pipx install)[^\n`]*?[ '"]penstock(?=[\['"`\s]|$)|\bpenstock\["""
)


@pytest.mark.parametrize(
    "text", ["pip install penstock", "pip install 'penstock[spark]'", "install penstock[arrow], or"]
)
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert _FOREIGN.search(text)


@pytest.mark.parametrize("file", [*READ, *SOURCES, ROOT / "Makefile", ROOT / "pyproject.toml"], ids=name_of)
def test_no_line_says_to_install_the_strangers_package(file: Path) -> None:
    for line in file.read_text().splitlines():
        if "never `pip install penstock`" not in line:
            assert not _FOREIGN.search(line), line


def test_the_wheel_is_named_as_the_pages_and_errors_say(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    environ = dict(os.environ, PENSTOCK_BUILD=str(tmp_path / "build"))
    subprocess.run(command, check=True, capture_output=True, env=environ)
    assert [path.name for path in tmp_path.glob("*.whl")] == [WHEEL]
    with zipfile.ZipFile(tmp_path / WHEEL) as wheel:
        names = set(wheel.namelist())
        folder = WHEEL.partition("-py3")[0] + ".dist-info"
        metadata = wheel.read(f"{folder}/METADATA").decode()
        scripts = wheel.read(f"{folder}/entry_points.txt").decode()
    assert {"penstock/__init__.py", "penstock/cli/__init__.py"} <= names
    assert "penstock/spark/report/templates/page.html" in names
    assert "\nName: penstock-mq\n" in metadata
    assert "\npenstock = penstock.cli:main\n" in scripts
    assert f"dist/{WHEEL}" in (ROOT / "docs/operations.md").read_text()


def test_every_extra_that_an_error_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for extra in extras:
        text = how_to_get(extra)
        assert text.endswith(f"pip install '{WHEEL}[{extra}]'")
        assert re.findall(r"'make (\w+)'", text)[0] in targets
