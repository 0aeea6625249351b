"""What holds in every sound store, at every moment: each rule is a statement that finds where it does not.

The statements are those of all databases alike, and read whole tables. The first column of what one finds is the name
of a queue, or NULL; the others are what its text tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import keys, limits
from penstock.model import MoveStatus

# So many findings of one rule are listed.
MOST_FOUND = 100

_TALLIES = """(SELECT queue, sum(arrived) AS arrived, sum(departed) AS departed FROM tally
               WHERE queue > 0 GROUP BY queue) AS t"""
_MESSAGES = "(SELECT queue, count(*) AS live FROM message WHERE queue > 0 GROUP BY queue) AS m"
_RECORDED = "(SELECT queue, count(*) AS recorded FROM ledger GROUP BY queue) AS r"
_LINES = """(SELECT queue, grp, min(seq) AS head FROM message WHERE grp IS NOT NULL AND queue > 0
             GROUP BY queue, grp) AS l"""
# The tables whose rows name a queue. A queue that was deleted keeps its row as long as one of them does.
_NAMING = {
    "message": "messages",
    "ledger": "rows of the ledger",
    "tally": "tallies",
    "shipment": "shipments",
    "lease": "leases",
    "consumer": "consumers",
    "sending": "keyed sends",
    "seen": "dedup keys",
    "attempt": "attempts",
    "collapse": "collapsed keys",
}


@dataclass(frozen=True)
class Rule:
    """`check` is what a person calls it, and `text` says what was found, by the columns after the first."""

    check: str
    text: str
    sql: str


def _without_queue(table: str, noun: str) -> Rule:
    return Rule(
        "queues",
        f"{{1:,}} {noun} name the queue number {{0}}, which does not exist",
        f"""SELECT NULL, x.queue, count(*) FROM {table} AS x LEFT JOIN queue AS q ON q.number = x.queue
            WHERE x.queue > 0 AND q.number IS NULL GROUP BY x.queue""",
    )


RULES = (
    Rule(
        "tallies",
        "{0:,} messages have arrived and {1:,} have departed, but {2:,} are there",
        f"""SELECT q.name, coalesce(t.arrived, 0), coalesce(t.departed, 0), coalesce(m.live, 0)
            FROM queue AS q LEFT JOIN {_TALLIES} ON t.queue = q.number LEFT JOIN {_MESSAGES} ON m.queue = q.number
            WHERE coalesce(t.arrived, 0) <> coalesce(t.departed, 0) + coalesce(m.live, 0)""",
    ),
    Rule(
        "ledger",
        "{0:,} messages have departed, but the ledger has {1:,} rows of them",
        f"""SELECT q.name, coalesce(t.departed, 0), r.recorded
            FROM queue AS q JOIN {_RECORDED} ON r.queue = q.number LEFT JOIN {_TALLIES} ON t.queue = q.number
            WHERE r.recorded > coalesce(t.departed, 0)""",
    ),
    # The sweep removes the oldest rows first: as long as the very first is there, it has removed none. A queue whose
    # settings have changed may have gone without a ledger for a while.
    Rule(
        "ledger",
        "{0:,} messages have departed, but the ledger has only {1:,} rows of them, and none was swept yet",
        f"""SELECT q.name, t.departed, coalesce(r.recorded, 0)
            FROM queue AS q JOIN {_TALLIES} ON t.queue = q.number LEFT JOIN {_RECORDED} ON r.queue = q.number
            WHERE q.ledger <> 0 AND q.modified_at = q.created_at
            AND t.departed > coalesce(r.recorded, 0) AND EXISTS (SELECT 1 FROM ledger WHERE number = 1)""",
    ),
    Rule(
        "ledger",
        "{0:,} rows have an outcome that does not exist",
        "SELECT NULL, count(*) FROM ledger WHERE outcome NOT BETWEEN 1 AND 7 HAVING count(*) > 0",
    ),
    Rule(
        "ledger",
        "{0:,} rows up to the number {1} were counted, but there are {2:,}",
        """SELECT NULL, s.amount, s.through, count(l.number) FROM ledger_size AS s LEFT JOIN ledger AS l
           ON l.number <= s.through GROUP BY s.amount, s.through HAVING s.amount <> count(l.number)""",
    ),
    *(_without_queue(table, noun) for table, noun in _NAMING.items()),
    Rule(
        "queues",
        "{0:,} queues that were not deleted have this name",
        "SELECT name, count(*) FROM queue WHERE deleted_at IS NULL GROUP BY name HAVING count(*) > 1",
    ),
    Rule(
        "dead letters",
        "its dead letters go to the queue number {0}, which does not exist",
        """SELECT q.name, q.dead_letter_queue FROM queue AS q LEFT JOIN queue AS d ON d.number = q.dead_letter_queue
           WHERE q.dead_letter_queue IS NOT NULL AND d.number IS NULL""",
    ),
    Rule(
        "messages",
        "{0:,} messages have numbers below zero that cannot be",
        """SELECT q.name, count(*) FROM message AS m JOIN queue AS q ON q.number = m.queue
           WHERE m.receives < 0 OR m.ready_at < 0 GROUP BY q.name""",
    ),
    Rule(
        "lines",
        "the first message of {0:,} lines waits behind others: none of them can be claimed",
        f"""SELECT q.name, count(*) FROM {_LINES} JOIN message AS f ON f.seq = l.head
            JOIN queue AS q ON q.number = l.queue
            WHERE q.grouped <> 0 AND q.deleted_at IS NULL AND f.ready_at = {limits.BEHIND} GROUP BY q.name""",
    ),
    Rule(
        "lines",
        "{0:,} messages are ready that have others before them in their lines",
        f"""SELECT q.name, count(*) FROM {_LINES} JOIN message AS m ON m.queue = l.queue AND m.grp = l.grp
            JOIN queue AS q ON q.number = l.queue
            WHERE q.grouped <> 0 AND q.deleted_at IS NULL AND m.seq > l.head AND m.ready_at = 0 GROUP BY q.name""",
    ),
    Rule(
        "lines",
        "{0:,} messages wait behind others, but are in no line",
        f"""SELECT q.name, count(*) FROM message AS m JOIN queue AS q ON q.number = m.queue
            WHERE m.ready_at = {limits.BEHIND} AND (m.grp IS NULL OR q.grouped = 0) GROUP BY q.name""",
    ),
    Rule(
        "shipments",
        "{1:,} messages are kept for the shipment with the id {0}, which does not keep any",
        """SELECT NULL, -m.queue, count(*) FROM message AS m LEFT JOIN shipment AS s ON s.id = -m.queue AND s.kept > 0
           WHERE m.queue < 0 AND s.id IS NULL GROUP BY m.queue""",
    ),
    Rule(
        "shipments",
        "shipment {1} of the consumer {0!r} says that {2:,} of its {3:,} messages were dealt with",
        """SELECT q.name, s.consumer, s.number, s.cleared, s.messages FROM shipment AS s
           JOIN queue AS q ON q.number = s.queue WHERE s.cleared > s.messages OR s.cleared < 0""",
    ),
    Rule(
        "shipments",
        "shipment {1} of the consumer {0!r} is {2} and yet says where its messages are stored",
        """SELECT q.name, s.consumer, s.number, s.state FROM shipment AS s
           JOIN queue AS q ON q.number = s.queue WHERE s.stored_in IS NOT NULL AND s.state <> 'settled'""",
    ),
    Rule(
        "moves",
        "the move {0} has the status {1} and yet is{2} finished",
        f"""SELECT NULL, id, status, CASE WHEN finished_at IS NULL THEN ' not' ELSE '' END FROM move
            WHERE (status = '{MoveStatus.IN_PROGRESS}' AND finished_at IS NOT NULL)
               OR (status <> '{MoveStatus.IN_PROGRESS}' AND finished_at IS NULL)""",
    ),
    # Whatever clocks say: that a key was revoked before it was made is a clock that was put back, and no damage.
    Rule(
        "keys",
        f"the API key {{0}} has a digest of {{1}} bytes, and not {keys.DIGEST_BYTES}: no one can use that secret",
        f"""SELECT NULL, name, wrong FROM (
               SELECT name, length(digest) AS wrong FROM api_key UNION ALL SELECT name, length(old_digest) FROM api_key
           ) AS d WHERE wrong <> {keys.DIGEST_BYTES}""",
    ),
    Rule(
        "keys",
        "the API key {0} has an old secret that is the present one of {1}",
        "SELECT NULL, k.name, o.name FROM api_key AS k JOIN api_key AS o ON o.digest = k.old_digest",
    ),
    Rule(
        "keys",
        "the API key {0} has an old secret, but was never rotated",
        "SELECT NULL, name FROM api_key WHERE old_digest IS NOT NULL AND rotated_at IS NULL",
    ),
    Rule(
        "keys",
        "the API key {0} has no old secret, but an instant of one",
        """SELECT NULL, name FROM api_key
           WHERE old_digest IS NULL AND (old_until IS NOT NULL OR old_last_used_at IS NOT NULL)""",
    ),
    Rule(
        "keys",
        "the API key {0} has an old secret that was good until {1}, before the key was rotated at {2}",
        "SELECT NULL, name, old_until, rotated_at FROM api_key WHERE old_until < rotated_at",
    ),
    Rule(
        "keys",
        "the old secret of the API key {0} was last used at {1}, but the key itself not since {2}",
        """SELECT NULL, name, old_last_used_at, coalesce(last_used_at, 0) FROM api_key
           WHERE old_last_used_at > coalesce(last_used_at, 0)""",
    ),
    Rule(
        "keys",
        "the API key {0} has an instant below zero",
        """SELECT NULL, name FROM api_key
           WHERE created_at < 0 OR revoked_at < 0 OR expires_at < 0 OR rotated_at < 0 OR last_used_at < 0
              OR old_until < 0 OR old_last_used_at < 0""",
    ),
    Rule(
        "store",
        "there are {0:,} rows that say what store this is, and not one",
        "SELECT NULL, count(*) FROM store HAVING count(*) <> 1",
    ),
)

# What carries sequence numbers, none of which may be above the last that was given out.
NUMBERED = {
    "messages": "SELECT coalesce(max(seq), 0) FROM message",
    "the ledger": "SELECT coalesce(max(seq), 0) FROM ledger",
    "dedup keys": "SELECT coalesce(max(seq), 0) FROM seen",
    "collapsed keys": "SELECT coalesce(max(through), 0) FROM collapse",
}
LEDGER_NUMBERED = {
    "the ledger": "SELECT coalesce(max(number), 0) FROM ledger",
    "exports": "SELECT coalesce(max(through_number), 0) FROM export",
}
# Shipments that still hold messages, or keep them.
HOLDING = """
    SELECT s.queue, q.name, s.consumer, s.number, s.state, s.messages, s.cleared, s.kept, s.runs
    FROM shipment AS s JOIN queue AS q ON q.number = s.queue
    WHERE s.state IN ('gathering', 'open') OR s.cleared < s.messages OR s.kept = 1"""
SHIPPED = f"""
    SELECT m.seq, m.queue, q.name FROM message AS m JOIN queue AS q ON q.number = m.queue
    WHERE m.ready_at = {limits.SHIPPED} AND q.deleted_at IS NULL AND m.seq > {{after}} ORDER BY m.seq LIMIT {{limit}}"""
KEYS = "SELECT name, rules, coalesce(ended_sessions, '') FROM api_key ORDER BY number"
BODIES = """
    SELECT m.seq, q.name, m.body_hash, m.body FROM message AS m LEFT JOIN queue AS q ON q.number = m.queue
    WHERE m.seq > {after} ORDER BY m.seq LIMIT {limit}"""
COUNTS = {
    "queues": "SELECT count(*) FROM queue WHERE deleted_at IS NULL",
    "messages": "SELECT count(*) FROM message WHERE queue > 0",
    "ledger_rows": "SELECT count(*) FROM ledger",
}
