"""The archive of the source and the wheel, on a machine that has nothing else of ours: what they hold, and a first
session with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.extras import WHEEL
from tests.docs.pages import ROOT, blocks
from tests.docs.test_examples import README, Shell, run_console, run_script
from tests.lacking import lacking, not_installed
from tests.waiting import wait_until

SDIST = WHEEL.replace("-py3-none-any.whl", ".tar.gz")
# Those of Spark are half a gigabyte, and no server needs them.
EXTRAS = "arrow,mariadb,postgresql"
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "data", "tests", "bench")
_BUILD_SDIST = "from setuptools.build_meta import build_sdist; build_sdist({!r})"


def tried(*command: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Without the path to the package under test, which pip would take for an installed one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environ
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def run(*command: str | Path, cwd: Path, **environ: str) -> None:
    done = tried(*command, cwd=cwd, **environ)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    # Setuptools builds in the folder of the source.
    shutil.copytree(ROOT, folder / "source", ignore=_LEFT_OUT)
    command = [sys.executable, "-c", _BUILD_SDIST.format(str(folder))]
    run(*command, cwd=folder / "source", PENSTOCK_BUILD=str(folder / "build"))
    return folder / SDIST


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The plain one, from the archive alone."""
    folder = sdist.parent / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    run(*command, cwd=folder, PENSTOCK_BUILD=str(folder / "build"))
    return folder / WHEEL


def test_the_archive_holds_what_builds_and_explains_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md", "docs/deployment.md"):
        assert file in names
    assert {"deploy/Containerfile", "deploy/systemd/penstock.service"} <= names
    assert not [name for name in names if name.startswith(("tests", "build", ".venv")) or name.endswith(".pyc")]


def test_the_wheel_of_the_archive_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("penstock/")}
    package = ROOT / "src" / "penstock"
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {str(path.relative_to(package.parent)) for path in files if path.suffix != ".so"}


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty") / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    pins = folder.parent / "pins.txt"
    required = (ROOT / "requirements" / "server.txt").read_text()
    # Without their hashes, of which pip would want one for the wheel as well.
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]*", required, re.MULTILINE)))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    command = [*pip, "--disable-pip-version-check", "--constraint", pins, f"{wheel}[{EXTRAS}]"]
    done = tried(*command, cwd=folder.parent)
    if done.returncode and re.search("No matching distribution|connection", done.stderr):
        lacking("no package index can be reached", done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def url(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    log = tmp_path / "serve.log"
    with log.open("w") as file:
        command = [environment / "bin" / "penstock", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=file)
        try:
            wait_until(lambda: "serves" in log.read_text() or process.poll() is not None)
            yield re.findall(r"serves (http\S+) from", log.read_text())[0]
        finally:
            process.terminate()
            assert process.wait() == 0


def test_the_first_session_of_the_readme(environment: Path, url: str, tmp_path: Path) -> None:
    for needed in ("bash", "curl"):
        if shutil.which(needed) is None:
            not_installed(needed)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / ".venv").symlink_to(environment)
    shell = Shell(tmp_path / "here", url)
    try:
        section = README.read_text().partition("\n## A first session\n")[2].partition("\n## ")[0]
        session = [
            block for block in blocks(README) if block.text in section and block.language in ("console", "python")
        ]
        assert [block.language for block in session] == ["console", "python", "console"]
        for block in session:
            (run_console if block.language == "console" else run_script)(shell, block)
        program = "import os, penstock; print(os.path.realpath(penstock.__file__))"
        where, code = shell.run(f".venv/bin/python -c '{program}'")
        assert (code, where.startswith(f"{environment}/")) == (0, True)
    finally:
        shell.close()


def test_every_extra_is_there(environment: Path, tmp_path: Path) -> None:
    run(environment / "bin" / "python", "-c", "import psycopg, pyarrow, pymysql", cwd=tmp_path)
