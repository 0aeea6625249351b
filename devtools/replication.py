"""Private databases that are replicated, for tests and campaigns of failover: PostgreSQL with a standby, and a Galera
cluster of MariaDB. Like `databases.py`, all in folders and on ports of their own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg
import pymysql

from devtools.databases import (
    PASSWORD,
    START_SECONDS,
    USER,
    MariadbServer,
    NotInstalled,
    PostgresServer,
    Server,
    binary,
    database_of,
    mariadb_connection,
    reserve_port,
)

_PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
_ADMIN = "admin"
_CREDENTIALS = f"{USER}:{quote(PASSWORD, safe='')}"
# How soon a node that has gone is given up by the others: by default after 5 to 15 seconds, which tests need not wait.
_GROUP = {
    "evs.keepalive_period": "PT0.3S",
    "evs.inactive_check_period": "PT0.2S",
    "evs.suspect_timeout": "PT2S",
    "evs.inactive_timeout": "PT4S",
    "evs.install_timeout": "PT4S",
    "gcache.size": "16M",
    # Only the one that starts the cluster says where it begins.
    "pc.recovery": "false",
}


class PostgresNode(PostgresServer):
    """One of two; `copy_of` makes it a standby when it is first started."""

    def __init__(self, settings: Mapping[str, str], copy_of: PostgresServer | None = None) -> None:
        self._pg_basebackup = binary("pg_basebackup", "postgresql")
        self._settings = settings
        self._copy_of = copy_of
        super().__init__()

    def superuser(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._superuser_url(), autocommit=True)

    def _superuser_url(self) -> str:
        return f"postgresql://postgres:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def begin_again(self, copy_of: PostgresServer) -> None:
        """Throw the data away, and be a standby from the next start on."""
        # Its recovery frees what the crash has left in the system's shared memory.
        self._run_once(self._postgres, "--single", "-F", "-D", str(self.data), "postgres")
        shutil.rmtree(self.data)
        self._copy_of = copy_of

    def _install(self) -> None:
        if self._copy_of is None:
            return super()._install()
        assert isinstance(self._copy_of, PostgresNode)
        source = self._copy_of._superuser_url()
        self._run_once(
            self._pg_basebackup, "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )
        # As a primary it has no standby until it is told of one.
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")
        return None

    def _command(self) -> list[str]:
        return [*super()._command(), *(f"--{name}={value}" for name, value in self._settings.items())]


class Nodes:
    """The nodes of one cluster, and how a database of theirs is addressed. `address` has places for hosts and name."""

    def __init__(self, nodes: Sequence[Server], address: str) -> None:
        self._nodes = nodes
        self._address = address

    @contextmanager
    def closed_unless_begun(self) -> Iterator[None]:
        """Around a start that may fail half-way."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for node in self._nodes:
            node.close()

    def url_of(self, url: str, *nodes: Server) -> str:
        """The same database under the addresses of some, in their order, or of all."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes or self._nodes)
        return self._address.format(hosts=hosts, name=database_of(url))


class PostgresPair:
    """A primary, and a standby that has all that was committed: `level` is the primary's `synchronous_commit`."""

    kind = "postgresql"

    def __init__(self, level: str = "on", **settings: str) -> None:
        self._settings = {"synchronous_commit": level, "wal_receiver_timeout": "5s", **settings}
        self.primary = PostgresNode(self._settings)
        self.standby = PostgresNode(self._settings, copy_of=self.primary)
        address = f"postgresql://{_CREDENTIALS}@{{hosts}}/{{name}}?target_session_attrs=read-write"
        self._nodes = Nodes((self.primary, self.standby), address)
        self.url_of = self._nodes.url_of
        self.close = self._nodes.close

    def __enter__(self) -> Self:
        with self._nodes.closed_unless_begun():
            self.primary.start()
            self.replicate()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def new_url(self) -> str:
        """A new database, under the addresses of both."""
        return self.url_of(self.primary.new_url())

    def replicate(self) -> None:
        """Start the standby; from now on a commit waits for it."""
        self.standby.start()
        self.await_standby()
        with self.primary.superuser() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        self._wait("sync_state = 'sync'")

    def await_standby(self) -> None:
        self._wait("state = 'streaming'")

    def _wait(self, condition: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        with self.primary.superuser() as connection:
            while not connection.execute(f"SELECT 1 FROM pg_stat_replication WHERE {condition}".encode()).fetchall():
                if time.monotonic() > deadline:
                    raise RuntimeError("the standby does not replicate")
                time.sleep(0.02)

    def promote(self) -> None:
        """Make the standby the primary, whatever the other one does; from now on no commit waits for a standby."""
        self.primary, self.standby = self.standby, self.primary
        with self.primary.superuser() as connection:
            connection.execute("SELECT pg_promote(true, 300)")

    def rejoin(self) -> None:
        """The one that was the primary, and is not running, becomes the standby of the other."""
        self.standby.begin_again(copy_of=self.primary)
        self.replicate()


class GaleraNode(MariadbServer):
    """`first` of a cluster, or one that joins the `others`."""

    def __init__(self, number: int, provider: str) -> None:
        self._number = number
        self._provider = provider
        # For the group, for a state in pieces, and for a whole one.
        self._ports = [reserve_port() for _ in range(3)]
        self.group_port, self._piece_port, self._whole_port = [port.getsockname()[1] for port in self._ports]
        self.members: list[GaleraNode] = []
        self.bootstraps = False
        super().__init__()

    def close(self) -> None:
        super().close()
        for port in self._ports:
            port.close()

    def status(self, name: str) -> str:
        with mariadb_connection(self.url) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE %s", (name,))
            found = cursor.fetchone()
            return str(found[1]) if found else ""

    def isolate(self, yes: bool) -> None:
        """Cut it off from the other nodes, and not from its clients; or no more."""
        self.set_global(f"wsrep_provider_options = 'gmcast.isolate={int(yes)}'")

    def set_global(self, setting: str) -> None:
        admin = f"mariadb://{_ADMIN}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/"
        with mariadb_connection(admin) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL {setting}")

    def _install(self) -> None:
        super()._install()
        with (self.folder / "users.sql").open("a") as users:
            users.write(f"CREATE USER IF NOT EXISTS {_ADMIN}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n")
            users.write(f"GRANT ALL ON *.* TO {_ADMIN}@'127.0.0.1';\n")

    def await_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError("the node has not come back to its cluster")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Once it has the state of the others."""
        with suppress(pymysql.err.MySQLError):
            return self.status("wsrep_local_state_comment") == "Synced" and self.status("wsrep_ready") == "ON"
        return False

    def _command(self) -> list[str]:
        group = ",".join(f"127.0.0.1:{node.group_port}" for node in self.members)
        options = {
            **_GROUP,
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{self._piece_port}",
        }
        # Who is there is told to all by the first.
        command = [option for option in super()._command() if self.bootstraps or "init-file" not in option]
        return [
            *command,
            "--wsrep-on=ON",
            f"--wsrep-provider={self._provider}",
            f"--wsrep-provider-options={';'.join(f'{name}={value}' for name, value in options.items())}",
            "--wsrep-cluster-name=penstock",
            f"--wsrep-cluster-address=gcomm://{'' if self.bootstraps else group}",
            f"--wsrep-node-name=node{self._number}",
            f"--wsrep-node-address=127.0.0.1:{self.group_port}",
            f"--wsrep-node-incoming-address=127.0.0.1:{self.port}",
            f"--wsrep-sst-receive-address=127.0.0.1:{self._whole_port}",
            "--wsrep-sst-method=rsync",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
        ]


class GaleraCluster:
    """Three nodes, each with all that was committed."""

    kind = "mariadb"

    def __init__(self) -> None:
        binary("rsync", "rsync")
        provider = next((path for path in _PROVIDERS if Path(path).exists()), None)
        if provider is None:
            raise NotInstalled("galera-4")
        self.nodes = [GaleraNode(number, provider) for number in range(3)]
        for node in self.nodes:
            node.members = self.nodes
        self._nodes = Nodes(self.nodes, f"mariadb://{_CREDENTIALS}@{{hosts}}/{{name}}")
        self.url_of = self._nodes.url_of
        self.close = self._nodes.close

    def __enter__(self) -> Self:
        with self._nodes.closed_unless_begun():
            first, *others = self.nodes
            first.bootstraps = True
            first.start()
            first.bootstraps = False
            with ThreadPoolExecutor() as pool:
                list(pool.map(GaleraNode.start, others))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def new_url(self) -> str:
        """A new database, under the addresses of all."""
        return self.url_of(self.nodes[0].new_url())

    def in_charge(self, url: str, question: str) -> GaleraNode:
        """The node whose address is the answer to a question, asked in a database of one that belongs to the
        cluster."""
        for node in self.nodes:
            # One that is cut off, or not running, does not answer.
            with (
                suppress(pymysql.err.MySQLError, OSError),
                mariadb_connection(self.url_of(url, node)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(question)
                [(address,)] = cursor.fetchall()
                return next(node for node in self.nodes if address == f"127.0.0.1:{node.port}")
        raise RuntimeError("no node of the cluster answers")
