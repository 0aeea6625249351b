"""Faults: what they need of the machine, and a cluster that is not harmed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crowd import Cluster, running
from tests.lacking import lacking, not_installed
from tests.talk import Talk


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None:
        not_installed("strace")
    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB, so that it can be filled."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        lacking("no file system can be mounted", mounted.stderr.strip())
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="package", params=["postgres", "mariadb"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three servers on one database, for tests that do them no harm."""
    databases = request.getfixturevalue(f"shared_{request.param}")
    url = databases.new_url()
    with running(tmp_path_factory.mktemp("cluster"), url, url, url) as servers:
        yield Cluster(url, servers)
    databases.drop(url)


@pytest.fixture
def talks(cluster: Cluster) -> Iterator[list[Talk]]:
    """A connection to each server of the cluster."""
    talks = [server.talk() for server in cluster.servers]
    yield talks
    for talk in talks:
        talk.close()
