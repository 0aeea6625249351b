"""Spark's own servers as processes of this machine: a standalone cluster, and a Spark Connect server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from devtools.jvm import FLAGS, QUICK, defaults, options
from devtools.programs import Program, session_of


def surroundings(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """What every process of Spark is started with: nothing of it is written anywhere but in this folder."""
    import pyspark

    from penstock.spark.java import find_java

    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        **defaults({"spark.executor.memory": "600m", **settings}),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": FLAGS,
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_NO_DAEMONIZE": "1",
        "JAVA_HOME": str(find_java().launcher()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


class Cluster:
    """A master and workers of one core each."""

    def __init__(self, folder: Path, workers: int = 2, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are those of every driver that knows `environ`, and of its executors."""
        folder.mkdir()
        self.environ = surroundings(folder, settings or {})
        self._folder = folder
        self.programs: list[Program] = []
        self.workers: list[Program] = []
        try:
            master = self._start("master", "127.0.0.1", "master.Master", "--port", "0")
            self.url = master.wait_for(r"Starting Spark master at (spark://\S+)")
            for number in range(workers):
                # An address of its own for each: Spark runs no twin of a task on the host of the first.
                self.workers.append(
                    self._start(
                        f"worker-{number}", f"127.0.0.{number + 2}", "worker.Worker", "--port", "0", "--cores", "1",
                        "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"), self.url,
                    )
                )  # fmt: skip
            for worker in self.workers:
                worker.wait_for("Successfully registered with master")
        except BaseException:
            self.stop()
            raise

    def worker_of(self, pid: int) -> Program:
        """The worker that has started this process."""
        return next(worker for worker in self.workers if worker.process.pid == session_of(pid))

    def stop(self) -> None:
        for program in self.programs:
            program.kill()

    def _start(self, name: str, host: str, kind: str, *arguments: str) -> Program:
        program = Program(
            self._folder, name, f"{self.environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{kind}",
            "--host", host, "--webui-port", "0", *arguments, environ={**self.environ, "SPARK_LOCAL_IP": host},
        )  # fmt: skip
        self.programs.append(program)
        return program


class ConnectServer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        environ = surroundings(folder, QUICK)
        settings = {
            **QUICK,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        self.program = Program(
            folder, "connect", f"{environ['SPARK_HOME']}/bin/spark-submit",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2,2]",
            "--driver-memory", "1g", *options(settings), environ=environ,
        )  # fmt: skip
        try:
            port = self.program.wait_for(r"Spark Connect server started at: \S+:(\d+)")
        except BaseException:
            self.stop()
            raise
        self.url = f"sc://127.0.0.1:{port}"

    def stop(self) -> None:
        self.program.kill()
