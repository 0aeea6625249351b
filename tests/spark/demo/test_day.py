from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client import Client, Unreachable
from penstock.spark.demo import demo
from penstock.spark.demo.server import PrivateServer
from penstock.spark.demo.workers import EMAILS, ORDERS, PAYMENTS, Workers, create_queues
from penstock.spark.jobs import JobFailed, Run
from penstock.terminal import Quiet
from tests.servers import ThreadServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Said(Quiet):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_a_day_ends_with_a_report_and_an_audit_that_adds_up(spark: SparkSession, tmp_path: Path) -> None:
    said = Said()
    folder = tmp_path / "demo"
    summary = demo(str(folder), messages=120, seed=3, run=Run(spark, progress=said))
    assert summary.problems == []
    assert summary.dead_letters >= 3, "a broken order in every part of the day"
    assert summary.twins > 0
    assert summary.archived > summary.acked
    assert spark.read.parquet(f"{summary.lake}/messages").count() == summary.drained > 0
    page = Path(summary.report).read_text()
    assert "orders-dead" not in page, "what is still in its queue has no ledger row"
    assert all(f">{queue}</a>" in page for queue in (ORDERS, PAYMENTS, EMAILS))
    text = "\n".join(summary.lines())
    assert all(place in text for place in (summary.report, summary.lake, summary.store, str(folder)))
    assert any("noon: loaded" in line for line in said.lines)


def test_a_folder_with_something_in_it_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(JobFailed, match="not empty"):
        demo(str(tmp_path), run=Run(spark))
    assert [it.name for it in tmp_path.iterdir()] == ["mine"]


def worked(url: str, seed: int) -> tuple[int, int, int]:
    from penstock.spark.demo.orders import order_lines

    with Client(url) as client:
        create_queues(client)
        client.send_many(ORDERS, list(order_lines(300, seed, "noon")))
        workers = Workers(client, seed, nap=lambda _: None)
        workers.work()
        assert {queue: client.queue(queue).count.ready for queue in (ORDERS, PAYMENTS, EMAILS)} == {
            ORDERS: 0, PAYMENTS: 0, EMAILS: 0,
        }  # fmt: skip
        return workers.done.acked, workers.done.failed, client.queue(f"{ORDERS}-dead").count.total


def test_the_same_seed_makes_the_same_day(tmp_path: Path) -> None:
    days = []
    for place in ("a", "b"):
        server = ThreadServer(f"sqlite:///{tmp_path / place}/penstock.db")
        try:
            days.append(worked(server.url, 5))
        finally:
            server.stop()
    assert days[0] == days[1]
    assert days[0][1] > 3


def test_the_server_is_gone_when_the_day_is_over_however_it_ended(tmp_path: Path) -> None:
    def interrupted() -> None:
        with PrivateServer(tmp_path) as server, Client(server.url) as client:
            urls.append(server.url)
            assert list(client.queues()) == []
            raise KeyboardInterrupt

    urls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with Client(urls[0], timeout_s=5) as client, pytest.raises(Unreachable):
        client.queue("any")


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    with pytest.raises(JobFailed, match="did not start"), PrivateServer(tmp_path):
        pass


def test_ctrl_c_stops_the_server_too(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom penstock.spark.demo.server import PrivateServer\n"
        "with PrivateServer(Path(sys.argv[1])) as server:\n"
        "    print(server._process.pid, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
