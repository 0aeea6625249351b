"""Every program in examples/ runs as it stands, against a real server."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from devtools.jvm import defaults
from penstock.client import Client
from tests.commands import understood
from tests.servers import ThreadServer
from tests.sqs_clients.environments import NEWEST, program
from tests.sqs_clients.environments import environ as clean_environ

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh"))


def run(name: str, *arguments: str, **environ: str) -> str:
    return complete(name, *arguments, **environ).stdout


def complete(
    name: str, *arguments: str, cwd: Path | None = None, python: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    interpreter = "bash" if name.endswith(".sh") else python
    done = subprocess.run(
        [interpreter, str(FOLDER / name), *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def test_every_program_is_listed_and_tested() -> None:
    listed = re.findall(r"^\| \[([\w.]+)\]\(\1\)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == PROGRAMS
    tested = Path(__file__).read_text()
    for name in PROGRAMS:
        assert f'"{name}"' in tested, name


def test_session(server: ThreadServer) -> None:
    for _time in range(2):
        printed = run("session.sh", PENSTOCK_URL=server.url)
        answers = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        assert [sent["repeated"] for sent in answers if "repeated" in sent] == [False, True]
        assert {"done": [True, True]} in answers
        assert answers[-1]["tally"] == {"arrived": 2, "departed": 2}


def test_producer_and_consumer(server: ThreadServer) -> None:
    assert run("producer.py", PENSTOCK_URL=server.url) == "stored 1000 orders\n"
    assert run("producer.py", PENSTOCK_URL=server.url) == "stored 0 orders\n"
    # What it puts off may be ready again before it ends, or wait for the second run.
    first = complete("consumer.py", "--until-empty", PENSTOCK_URL=server.url)
    printed = [first.stdout]
    with Client(server.url) as client:
        while client.queue("orders").count.total:
            printed.append(run("consumer.py", "--until-empty", PENSTOCK_URL=server.url))
        assert client.queue("orders-dead").count.total == 0
    found = [re.fullmatch(r"acked (\d+), discarded (\d+), put off (\d+)\n", text) for text in printed]
    orders = [number % 500 for number in range(1000)]
    assert [sum(int(one[column]) for one in found) for column in (1, 2, 3)] == [
        1000 - orders.count(0),
        orders.count(0),
        orders.count(6),
    ]
    # Little enough that the result is seen.
    assert len(first.stderr.splitlines()) == orders.count(0)


def test_async_worker(server: ThreadServer) -> None:
    for _time in range(2):
        assert run("async_worker.py", "--until-empty", PENSTOCK_URL=server.url) == "fetched 200 pages\n"


def test_dead_letters(server: ThreadServer) -> None:
    for _time in range(2):
        assert run("dead_letters.py", PENSTOCK_URL=server.url).splitlines() == [
            'dead: {"to":"ada"} from mail',
            'dead: {"to":"grace"} from mail',
            'dead: {"to":"nowhere"} from mail',
            "moved 1 back for ada",
            "moved 1 back for grace",
            'handled {"to":"ada"}',
            'handled {"to":"grace"}',
        ]


def test_shipment_to_file(server: ThreadServer, tmp_path: Path) -> None:
    with Client(server.url) as client:
        client.create_queue("orders")
        client.send_many("orders", [f"order {number}" for number in range(2500)])
    printed = run("shipment_to_file.py", "orders", str(tmp_path), PENSTOCK_URL=server.url)
    assert printed.splitlines() == [
        "wrote orders-00000001.jsonl with 1000 messages",
        "wrote orders-00000002.jsonl with 1000 messages",
        "wrote orders-00000003.jsonl with 500 messages",
    ]
    assert run("shipment_to_file.py", "orders", str(tmp_path), PENSTOCK_URL=server.url) == ""
    assert bodies(tmp_path) == [f"order {number}" for number in range(2500)]


def test_shipment_to_file_without_arguments(server: ThreadServer, tmp_path: Path) -> None:
    assert complete("shipment_to_file.py", cwd=tmp_path, PENSTOCK_URL=server.url).stdout == ""
    run("producer.py", PENSTOCK_URL=server.url)
    printed = complete("shipment_to_file.py", cwd=tmp_path, PENSTOCK_URL=server.url).stdout
    assert printed == "wrote orders-00000001.jsonl with 1000 messages\n"
    assert len(bodies(tmp_path / "data" / "shipments")) == 1000


def test_a_shipment_that_was_written_and_not_settled_is_written_again(server: ThreadServer, tmp_path: Path) -> None:
    """As after a kill between the file and its settling."""
    with Client(server.url) as client:
        client.create_queue("orders")
        client.send_many("orders", ["one", "two"])
        client.claim_shipment(client.next_shipment("orders", "files"), limit=1)
    (tmp_path / "orders-00000001.jsonl").write_text('{"id": "half a line')
    run("shipment_to_file.py", "orders", str(tmp_path), PENSTOCK_URL=server.url)
    assert bodies(tmp_path) == ["one", "two"]


def bodies(folder: Path) -> list[str]:
    return [
        json.loads(line)["body"] for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()
    ]


def test_sqs_worker(server: ThreadServer) -> None:
    done = []
    for _time in range(2):
        python = program(NEWEST, "python")
        variables = clean_environ(PENSTOCK_URL=server.url)
        done.append(complete("sqs_worker.py", "--until-empty", python=python, **variables))
    assert done[0].stdout.splitlines() == ["pack for ada", "ship for ada", "pack for grace", "ship for grace"]
    assert done[0].stderr.splitlines() == ["put off: no such customer"] * 3
    assert done[1].stdout == ""
    with Client(server.url) as client:
        assert client.peek("parcels.fifo").messages == []
        assert [message.json["step"] for message in client.peek("parcels-dead.fifo").messages] == ["pack", "ship"]


def test_web_app(tmp_path: Path) -> None:
    environ = {**os.environ, "QUEUE": f"sqlite:///{tmp_path}/web.db", "PORT": "0"}
    app = subprocess.Popen([sys.executable, str(FOLDER / "web_app.py")], env=environ, stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    try:
        [url] = re.findall(r"http\S+", app.stdout.readline())
        with urllib.request.urlopen(f"{url}/cat.png", data=b"") as answer:
            assert answer.status == 202
            job = answer.read().decode().strip()
        assert app.stdout.readline() == "made a thumbnail of cat.png\n"
        with urllib.request.urlopen(f"{url}/{job}") as answer:
            assert answer.read() in (b"consumed\n", b"processed\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/nothing")
    finally:
        app.send_signal(signal.SIGTERM)
        app.stdout.close()
        assert app.wait(timeout=100) == 0


def test_vsqs_processes() -> None:
    for _time in range(2):
        assert run("vsqs_processes.py").splitlines() == [*(f"job {number}" for number in range(20)), "left: 0"]


# Airflow, which is not installed here: its DAG is read, and what it would run is run


def tasks() -> dict[str, str]:
    """The commands of the DAG, by the names of its tasks."""
    tree = ast.parse((FOLDER / "airflow_dag.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    operators = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "BashOperator"]
    given = [{word.arg: word.value for word in call.keywords} for call in operators]
    return {ast.literal_eval(each["task_id"]): ast.literal_eval(each["bash_command"]) for each in given}


def test_the_tasks_of_the_dag_are_jobs() -> None:
    compile((FOLDER / "airflow_dag.py").read_text(), "airflow_dag.py", "exec")
    assert list(tasks()) == ["drain", "archive", "audit", "report"]
    for name, command in tasks().items():
        assert understood(command.removeprefix("exec ")).info_name == name


@pytest.mark.timeout(600)
def test_tasks_of_the_dag_that_overlap_and_are_tried_again(server: ThreadServer, tmp_path: Path) -> None:
    """Two tries of the drain at the same time, then the rest."""
    import pyarrow.dataset as ds

    with Client(server.url) as client:
        client.create_queue("orders")
        for body in (b"1", b"2", b"3"):
            client.send("orders", body)
    (tmp_path / "penstock").write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    (tmp_path / "penstock").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environ = os.environ | defaults() | {"PATH": path, "PENSTOCK_URL": server.url}
    commands = {name: command.replace("/data", str(tmp_path)) for name, command in tasks().items()}

    def start(name: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(["bash", "-c", commands[name]], env=environ, **pipes)

    drained = 0
    for drain in [start("drain"), start("drain")]:
        told, said = drain.communicate()
        assert drain.returncode == 0, said
        drained += json.loads(told)["messages"]
    rows = ds.dataset(tmp_path / "lake" / "messages", format="parquet").to_table(columns=["body"])
    assert (drained, sorted(rows["body"].to_pylist())) == (3, [b"1", b"2", b"3"])
    for name in ("archive", "audit", "report"):
        task = start(name)
        said = task.communicate()[1]
        assert task.returncode == 0, said
    assert (tmp_path / "report.html").is_file()
