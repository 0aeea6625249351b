"""Private PostgreSQL and MariaDB servers for tests and benchmarks, and fresh databases on them.

A server is run from the installed binaries, in a folder and on a port of its own; it may be stopped, killed, or paused,
and ends with the process that started it, however that ends. With `PENSTOCK_TEST_POSTGRESQL` or `PENSTOCK_TEST_MARIADB`
set to the URL of a server, fresh databases are made there instead. Nothing here touches a database that it did not
make, reads the system's configuration, or knows Penstock.
"""

from __future__ import annotations

import contextlib
import glob
import inspect
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

import psycopg
import pymysql

# The password needs escaping in a URL, so that code which forgets to undo that is found out.
USER, PASSWORD = "penstock", "pen/st@ck"
# On a busy machine a server takes its time; nothing here depends on how much.
START_SECONDS = 300


class NotInstalled(Exception):
    """There is no server to run; `package` is what Debian calls the missing one."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed")
        self.package = package


class Databases(ABC):
    """Fresh, empty databases on the server at `url`, whose user may create them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made: list[str] = []

    def new_url(self, options: str = "") -> str:
        """`options` are what the server's CREATE DATABASE takes after the name."""
        url = urlsplit(self.url)._replace(path=f"/penstock_{secrets.token_hex(6)}").geturl()
        self._create(f"{database_of(url)} {options}")
        self._made.append(url)
        return url

    def drop(self, url: str) -> None:
        """Clients that are still connected to it are thrown out."""
        self._made.remove(url)
        self._drop(database_of(url))

    def close(self) -> None:
        for url in [*self._made]:
            self.drop(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _create(self, name_and_options: str) -> None: ...

    @abstractmethod
    def _drop(self, name: str) -> None: ...

    @abstractmethod
    def _answers(self) -> bool: ...


def database_of(url: str) -> str:
    return urlsplit(url).path[1:]


class PostgresDatabases(Databases):
    def _create(self, name_and_options: str) -> None:
        self._persist(f"CREATE DATABASE {name_and_options}")

    def _drop(self, name: str) -> None:
        self._persist(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _persist(self, statement: str) -> None:
        """Those who are in the way leave by themselves: an autovacuum worker, which only a superuser may end, and
        clients that were told to go, for which the server waits five seconds at most."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._run(statement)
            except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _answers(self) -> bool:
        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


class MariadbDatabases(Databases):
    def _create(self, name_and_options: str) -> None:
        with mariadb_connection(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name_and_options}")

    def _drop(self, name: str) -> None:
        with mariadb_connection(self.url) as connection, connection.cursor() as cursor:
            # DROP would wait for the transactions that a test has left open.
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [name])
            for (connected,) in cursor.fetchall():
                with contextlib.suppress(pymysql.err.OperationalError):  # it has left meanwhile
                    cursor.execute(f"KILL {connected}")
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")

    def _answers(self) -> bool:
        try:
            with mariadb_connection(self.url):
                return True
        except pymysql.err.OperationalError:
            return False


def mariadb_connection(url: str) -> pymysql.connections.Connection[Any]:
    """Its `with` closes it. Every statement commits by itself."""
    at = urlsplit(url)
    return pymysql.connect(
        host=at.hostname,
        port=at.port or 3306,
        user=unquote(at.username or ""),
        password=unquote(at.password or ""),
        database=at.path[1:] or None,
        connect_timeout=START_SECONDS,
        autocommit=True,
        ssl_disabled=True,  # a context for TLS costs 30 ms on every connection, used or not
    )


class Server(Databases):
    """A server of our own. `durable` is how users run it; without, nothing is synced to the disk and all is quicker."""

    kind: str
    system_user: str  # whom it runs as where we are root: both servers refuse to run as root
    stop_signal: signal.Signals
    database: str  # one that is always there

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable
        self._reserved = reserve_port()
        self.port = self._reserved.getsockname()[1]
        super().__init__(f"{self.kind}://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{self.database}")
        self._as_user = unprivileged(self.system_user)
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-{self.kind}-", dir=None if durable else in_memory()))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        if self._as_user:
            shutil.chown(self.folder, self._as_user["user"], self._as_user["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = start_keeper(self.folder)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def pid(self) -> int:
        assert self._process, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it, on the same port and data as before, and wait until it answers."""
        assert not self._process, "the server runs already"
        if not self.data.exists():
            self._install()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user,
            )
        self._tell_keeper(self.pid)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Let it end in good order; it does not wait for its clients."""
        if self._process:
            if self._process.poll() is None:
                self.resume()
                self._process.send_signal(self.stop_signal)
            self._ended()

    def kill(self) -> None:
        """A crash of all its processes at once."""
        signal_all(self.pid, signal.SIGKILL)
        self._ended()

    def pause(self) -> None:
        """It hangs: connections are still accepted, by the kernel, and nothing answers."""
        signal_all(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        signal_all(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.stop()
        self._keeper.communicate()
        self._reserved.close()

    def _ended(self) -> None:
        assert self._process
        self._process.wait()
        self._process = None
        self._tell_keeper(0)

    def _tell_keeper(self, pid: int) -> None:
        assert self._keeper.stdin
        self._keeper.stdin.write(b"%d\n" % pid)
        self._keeper.stdin.flush()

    def _run_once(self, *command: str, stdin: str = "") -> None:
        run: subprocess.CompletedProcess[str] = subprocess.run(
            command,
            cwd=self.folder,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self._as_user,
        )
        if run.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{run.stdout}")

    @abstractmethod
    def _install(self) -> None: ...

    @abstractmethod
    def _command(self) -> list[str]: ...


class PostgresServer(Server, PostgresDatabases):
    kind = "postgresql"
    system_user = "postgres"
    stop_signal = signal.SIGINT
    database = "postgres"

    def __init__(self, *, durable: bool = True) -> None:
        self._initdb, self._postgres = binary("initdb", "postgresql"), binary("postgres", "postgresql")
        super().__init__(durable=durable)

    def close(self) -> None:
        # What is left of a crash in the system's shared memory is only found by way of the data.
        if not self._process and (self.data / "postmaster.pid").exists():
            self.start()
        super().close()

    def _install(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self._run_once(
            self._initdb,
            f"--pgdata={self.data}",
            "--auth=scram-sha-256",
            "--username=postgres",
            f"--pwfile={password}",
            "--locale=C.UTF-8",
            "--encoding=UTF8",
            "--no-sync",
        )
        # Not a superuser: what Penstock does must not need one.
        role = f"CREATE ROLE {USER} LOGIN CREATEDB PASSWORD '{PASSWORD}'"
        self._run_once(self._postgres, "--single", "-F", "-D", str(self.data), "postgres", stdin=role)

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 300,
            "shared_buffers": "64MB",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return [self._postgres, "-D", str(self.data), *(f"--{name}={value}" for name, value in settings.items())]


class MariadbServer(Server, MariadbDatabases):
    kind = "mariadb"
    system_user = "mysql"
    stop_signal = signal.SIGTERM
    database = ""

    def __init__(self, *, durable: bool = True) -> None:
        self._install_db = binary("mariadb-install-db", "mariadb-server")
        self._mariadbd = binary("mariadbd", "mariadb-server")
        super().__init__(durable=durable)

    # Syncs of all kinds off, those of CREATE and DROP too.
    HASTE = ["--innodb-flush-method=nosync", "--skip-innodb-doublewrite", "--skip-sync-frm"]

    def _install(self) -> None:
        options = ["--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.folder}", "--skip-test-db", "--force"]
        self._run_once(self._install_db, *options, *self.HASTE)
        # All that begins with its name is the user's, and nothing else.
        (self.folder / "users.sql").write_text(
            f"CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON `{USER}\\_%`.* TO {USER}@'127.0.0.1';\n"
        )

    def _command(self) -> list[str]:
        return [
            self._mariadbd,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.folder}",
            f"--socket={self.folder}/socket",
            f"--pid-file={self.folder}/pid",
            f"--init-file={self.folder}/users.sql",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-name-resolve",
            "--max-connections=300",
            "--innodb-buffer-pool-size=128M",
            "--character-set-server=utf8mb4",  # as Debian's configuration has it
            "--collation-server=utf8mb4_general_ci",
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 0}",
            *([] if self.durable else self.HASTE),
        ]


def binary(name: str, package: str) -> str:
    versions = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[4]), reverse=True)
    path = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *versions, "/usr/sbin", "/usr/local/bin"]))
    if not path:
        raise NotInstalled(package)
    return path


def in_memory() -> str | None:
    """Where a file costs no disk, if there is room. A new PostgreSQL database is 300 files: 30 ms here, 300 on ext4."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**31:
            return "/dev/shm"
    return None


def reserve_port() -> socket.socket:
    """Bound but not listening: no other program is given the port, not even while the server on it is down."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def unprivileged(user: str) -> dict[str, Any]:
    """How to run a process as that user where we are root; as `nobody` where there is no such user."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def stat_of(pid: int) -> tuple[str, int]:
    """The state and the parent of a process; X, as the kernel calls the dead, when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def signal_all(server: int, number: int) -> None:
    """Signal a server and its children, which have process groups of their own; wait for those who are to die."""
    os.kill(server, signal.SIGSTOP)
    while stat_of(server)[0] not in "TtZX":  # once stopped it starts no further children
        time.sleep(0.001)
    children = [int(name) for name in os.listdir("/proc") if name.isdigit() and stat_of(int(name))[1] == server]
    for pid in [*children, server]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    while number == signal.SIGKILL and any(stat_of(pid)[0] not in "ZX" for pid in [*children, server]):
        time.sleep(0.001)


def keep(folder: str) -> None:
    """Read the ids of a server's processes; when the writer is gone, end the last, unless it is 0, and clean up."""
    server = 0
    for line in sys.stdin:
        server = int(line)
    if server and stat_of(server)[0] not in "ZX":
        signal_all(server, signal.SIGCONT)
        os.kill(server, signal.SIGQUIT)  # which both take for a quick end, and leave no shared memory behind
        deadline = time.monotonic() + 5
        while stat_of(server)[0] not in "ZX":
            if time.monotonic() > deadline:
                signal_all(server, signal.SIGKILL)
            time.sleep(0.01)
    shutil.rmtree(folder)


def start_keeper(folder: Path) -> subprocess.Popen[bytes]:
    """A process that ends the server and removes its folder when we are gone, were it by SIGKILL."""
    imports = "import contextlib, os, shutil, signal, sys, time\nfrom pathlib import Path"
    functions = [inspect.getsource(function) for function in (stat_of, signal_all, keep)]
    program = "\n".join([imports, *functions, f"keep({str(folder)!r})"])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, cwd="/", start_new_session=True
    )
