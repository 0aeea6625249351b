"""`penstock pipeline`: the commands around the jobs. What the jobs themselves do is tested with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from devtools.jvm import defaults
from penstock.cli import main
from penstock.extras import how_to_get

JOBS = ("load", "drain", "archive", "report", "triage", "replay", "audit", "dedup", "demo")

NO_SPARK = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nowhere())
from penstock.cli import main
main()
"""


def penstock(
    *words: str, url: str = "http://127.0.0.1:1", code: str | None = None, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    program = ["-m", "penstock"] if code is None else ["-c", code]
    environ = os.environ | {"PENSTOCK_URL": url} | dict(settings or {})
    return subprocess.run([sys.executable, *program, *words], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("job", JOBS)
def test_every_job_explains_itself_without_spark(job: str) -> None:
    done = penstock("pipeline", job, "--help", code=NO_SPARK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--json" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("drain", "--queue", "q", "--lake", "x"),
        ("load", "x.csv", "--queue", "q"),
        ("audit",),
        ("dedup", "--lake", "x", "--to", "y"),
    ],
    ids=lambda words: words[0],
)
def test_without_spark_a_line_says_what_to_install(words: tuple[str, ...]) -> None:
    done = penstock("pipeline", *words, code=NO_SPARK)
    assert (done.returncode, done.stderr) == (2, f"penstock: this needs Spark: {how_to_get('spark')}\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("drain", "--queue", "q"), "--lake"),
        (("drain", "--queue", "q", "--lake", "x", "--format", "json"), "go together"),
        (("drain", "--queue", "q", "--lake", "x", "--hold", "1ms"), "at least 1s"),
        (("drain", "--queue", "q", "--lake", "x", "--master", "local", "--remote", "sc://x"), "exclude each other"),
        (("drain", "--queue", "q", "--lake", "x", "--url", "nonsense"), "not a server's address"),
        (("replay", "--to", "q"), "either --lake or --queue"),
        (("load", "--queue", "q"), "SOURCE"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(main, ["pipeline", *words])
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_queue_that_does_not_exist(server) -> None:
    runner = CliRunner(env={"PENSTOCK_URL": server.url})
    result = runner.invoke(main, ["pipeline", "drain", "--queue", "nowhere", "--lake", "x"])
    assert (result.exit_code, result.stderr) == (3, "penstock: queue 'nowhere' does not exist\n")


@pytest.mark.timeout(600)
def test_from_a_file_to_the_lake_and_back(server, tmp_path: Path) -> None:
    """As a user runs them, each with a Java of its own."""
    (tmp_path / "in.txt").write_text("a\nb\n")
    lake = str(tmp_path / "lake")
    loading = ("pipeline", "load", str(tmp_path / "in.txt"), "--queue", "q", "--create")
    quick = defaults()
    loaded = penstock(*loading, "--json", url=server.url, settings=quick)
    assert (loaded.returncode, json.loads(loaded.stdout)["stored"]) == (0, 2), loaded.stderr
    drained = penstock("pipeline", "drain", "--queue", "q", "--lake", lake, url=server.url, settings=quick)
    assert drained.returncode == 0, drained.stderr
    assert drained.stdout.startswith("drained 2 messages (2 bytes) of q in 1 shipments")
    assert "penstock: draining q: 2 of 2\n" in drained.stderr
    shipment = next(Path(lake).glob("messages/queue=q/consumer=drain/shipment=1"))
    for file in shipment.iterdir():
        file.unlink()
    audited = penstock("pipeline", "audit", "--lake", lake, url=server.url, settings=quick)
    assert audited.returncode == 1
    assert f"penstock: q, consumer drain: its folder is gone from {lake}; manifests name 1 files there" in audited.stderr
