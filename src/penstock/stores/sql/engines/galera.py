"""A Galera cluster of MariaDB: every node has everything, and each can be written to.

But a lock holds on its own node only, and so does the order of numbers that the database gives out. Two units on two
nodes that must not run at the same time would both be committed, unless they happen to change the same row. So one node
is in charge, and every server uses that one: its name is in a table, which all nodes have. Another takes over only when
that one is no longer a member of the cluster. What it had not committed by then can never be committed: a node that is
cut off must not commit anything, and on one that comes back the take-over ends every unit that has read the table
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import ER

from penstock.errors import InvalidSetting, StoreUnavailable

# Made where it is needed; in no schema script.
TABLE = "node_in_charge"
_CREATE = f"""
    CREATE TABLE IF NOT EXISTS {TABLE} (number BIGINT PRIMARY KEY, node VARCHAR(255) NOT NULL)
    ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"""
IN_CHARGE = f"SELECT node FROM {TABLE} WHERE number = 1"
# A unit that writes holds on to what it has read.
STAYS_IN_CHARGE = f"{IN_CHARGE} LOCK IN SHARE MODE"
_TAKE_FIRST = f"INSERT INTO {TABLE} VALUES (1, %s)"
_TAKE_OVER = f"UPDATE {TABLE} SET node = %s WHERE number = 1 AND node = %s"
_SETTINGS = "SHOW VARIABLES WHERE variable_name IN ('wsrep_on', 'read_only')"
_STATUS = "SHOW GLOBAL STATUS LIKE 'wsrep%'"
# Others may be quicker, and then we look at what they have done.
_TRIES = 5


@dataclass(frozen=True)
class Node:
    """A member of a cluster, called by the address that its `wsrep_node_incoming_address` gives to clients. `view` is
    the number of the last change in the membership."""

    name: str
    members: tuple[str, ...]
    view: str


class Nowhere(StoreUnavailable):
    """This server of the database is not the one to be written to; perhaps another one is."""


def writable_node(connection: pymysql.Connection[Any], is_one_of_many: bool) -> Node | None:
    """None for a server that belongs to no cluster. Raises StoreUnavailable for one that cannot be written to."""
    with connection.cursor() as cursor:
        cursor.execute(_SETTINGS)
        settings = {str(name).lower(): value for name, value in cursor.fetchall()}
        if is_one_of_many and settings.get("read_only", "OFF") != "OFF":
            raise Nowhere("the server is read-only")
        if settings.get("wsrep_on", "OFF") != "ON":
            return None
        cursor.execute(_STATUS)
        status = dict(cursor.fetchall())
    if status["wsrep_ready"] != "ON" or status["wsrep_cluster_status"] != "Primary":
        raise Nowhere("the node has lost its cluster")
    members = tuple(status["wsrep_incoming_addresses"].split(","))
    name = members[int(status["wsrep_local_index"])]
    if members.count(name) > 1 or not name:
        raise InvalidSetting(
            f"the nodes of the cluster cannot be told apart, as they are {', '.join(members)}: "
            "set wsrep_node_incoming_address of each"
        )
    return Node(name, members, status["wsrep_cluster_conf_id"])


def in_charge(connection: pymysql.Connection[Any]) -> str | None:
    """None while no node has ever been."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(IN_CHARGE)
            found = cursor.fetchone()
    except pymysql.ProgrammingError as error:
        if error.args[0] == ER.NO_SUCH_TABLE:
            return None
        raise
    finally:
        connection.rollback()  # so that the next look is another one
    return str(found[0]) if found else None


def take_charge(connection: pymysql.Connection[Any], node: Node) -> None:
    """Raises Nowhere where another node is in charge."""
    for _ in range(_TRIES):
        found = in_charge(connection)
        if found == node.name:
            return
        if found in node.members:
            raise Nowhere(f"the node {found} of the cluster is in charge")
        try:
            with connection.cursor() as cursor:
                if found is None:
                    cursor.execute(_CREATE)
                    cursor.execute(_TAKE_FIRST, (node.name,))
                else:
                    cursor.execute(_TAKE_OVER, (node.name, found))
            connection.commit()
        except (pymysql.OperationalError, pymysql.IntegrityError) as error:
            connection.rollback()
            if error.args[0] not in (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.DUP_ENTRY):
                raise
    raise Nowhere("the nodes of the cluster cannot agree on which one is in charge")
