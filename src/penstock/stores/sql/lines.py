"""Lines: the messages of one group, in a queue with `Groups.FIFO`.

Of a line only the first message may be ready, so that a claim finds it as it finds any other: by age, among those that
stand at 0. The others stand at `BEHIND`, past all instants, until those before them have left. Whatever may have freed
the first place of a line ends with `lift`. A claim with a hundred thousand messages behind a hidden one looks at two.

Where several servers share a database, the queue is locked: else one would send a message behind another that a second
one is just finishing, and none would be left to lift it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock import limits, policy
from penstock.model import Groups, Queue
from penstock.stores.sql.engine import Engine, Row
from penstock.stores.sql.statements import Bounded


@dataclass(frozen=True, slots=True)
class LineSql:
    first: str = """
        SELECT seq, ready_at, sent_at, receives FROM {by_group} WHERE queue = ? AND grp = ? ORDER BY {age} LIMIT 1"""
    groups: str = "SELECT DISTINCT grp FROM message WHERE {among:seq} AND grp IS NOT NULL"
    stand_behind: str = f"UPDATE message SET ready_at = {limits.BEHIND} WHERE {{among:seq}} AND grp IS NOT NULL"
    return_behind: str = f"""
        UPDATE message SET ready_at = {limits.BEHIND} WHERE {{among:seq}} AND grp IS NOT NULL AND ready_at = 0"""
    step_forward: str = "UPDATE message SET ready_at = ? WHERE {among:seq}"
    following: str = """
        SELECT seq, ready_at, sent_at, receives FROM {by_group} WHERE queue = ? AND grp = ? AND {age} > ?
        ORDER BY {age} LIMIT ?"""
    # The sum keeps a database from reading the queue instead of these messages. Only the first may stand at 0.
    behind: str = Bounded(f"""
        SELECT {{message}} FROM message WHERE {{among:seq}} AND queue + 0 = ? AND ready_at IN (0, {limits.BEHIND})
        ORDER BY ready_at, seq""")
    measured_behind: str = f"""
        SELECT {{measured}} FROM message WHERE {{among:seq}} AND queue + 0 = ? AND ready_at IN (0, {limits.BEHIND})
        ORDER BY ready_at, seq"""
    waiting: str = f"""
        SELECT grp FROM {{walk}} WHERE queue = ? AND ready_at = {limits.BEHIND} ORDER BY {{age}} LIMIT ?"""
    queues: str = """
        SELECT number FROM queue WHERE number > ? AND grouped <> 0 AND deleted_at IS NULL ORDER BY number LIMIT ?"""


def has_lines(queue: Queue) -> bool:
    return queue.settings.groups is Groups.FIFO


def group_bytes(group: str | None) -> bytes | None:
    """As bytes, because some databases compare texts otherwise than by their characters."""
    return None if group is None else group.encode("utf-8", "surrogatepass")


def group_text(group: bytes | None) -> str | None:
    return None if group is None else group.decode("utf-8", "surrogatepass")


class GroupLines:
    __slots__ = ("_engine", "_sql")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sql = engine.statements.of(LineSql)

    def groups_of(self, seqs: Iterable[int]) -> list[bytes]:
        """To be asked before they leave."""
        return [group for (group,) in self._engine.rows(self._sql.groups, (self._engine.listed(seqs),))]

    def firsts(self, queue: Queue, groups: Iterable[bytes]) -> dict[bytes, Row]:
        """Number, `ready_at`, instant of sending and receives of the first message of each line that has one."""
        looks = [(group, self._engine.later(self._sql.first, (queue.number, group))) for group in groups]
        return {group: row for group, look in looks for row in look.rows()}

    def lift(self, queue: Queue, groups: Iterable[bytes], now: int) -> bool:
        """Of each line, the first message has its turn. Whether there was one that had not had it yet."""
        instants: dict[int, list[int]] = {}
        for seq, ready_at, sent_at, receives in self.firsts(queue, groups).values():
            if ready_at == limits.BEHIND:
                until = policy.line_ready_at(queue.settings, now, sent_at, receives)
                instants.setdefault(until, []).append(seq)
        for until, seqs in sorted(instants.items()):
            self._engine.later(self._sql.step_forward, (until, self._engine.listed(sorted(seqs))))
        return bool(instants)

    def stand_behind(self, seqs: Sequence[int]) -> None:
        """Messages that have just come into a queue, whatever delay they had."""
        self._engine.later(self._sql.stand_behind, (self._engine.listed(seqs),))

    def return_behind(self, seqs: Sequence[int]) -> None:
        """Those of these messages that are ready, as if others were before them."""
        self._engine.later(self._sql.return_behind, (self._engine.listed(seqs),))

    def following(self, queue: Queue, group: bytes, after: int, limit: int, now: int) -> list[int]:
        """Up to `limit` messages behind one in its line, as far as none of them is hidden."""
        rows = self._engine.rows(self._sql.following, (queue.number, group, after, limit))
        seqs: list[int] = []
        for seq, ready_at, sent_at, receives in rows:
            if policy.is_hidden(ready_at) or policy.line_ready_at(queue.settings, now, sent_at, receives):
                break
            seqs.append(seq)
        return seqs

    def read(self, queue: Queue, seqs: Sequence[int], room: int) -> list[Row]:
        """Rows of `{message}`, as long as they fit."""
        return self._engine.rows_within(self._sql.behind, (self._engine.listed(seqs), queue.number), room)

    def measured(self, queue: Queue, seqs: Sequence[int]) -> list[Row]:
        """Rows of `{measured}`."""
        return self._engine.rows(self._sql.measured_behind, (self._engine.listed(seqs), queue.number))

    # A belt

    def queues(self, after: int, limit: int) -> list[int]:
        """Those that have lines, by number, after one."""
        return [number for (number,) in self._engine.rows(self._sql.queues, (after, limit))]

    def headless(self, queue: Queue, limit: int) -> Collection[bytes]:
        """Of the messages that have waited longest behind others, the groups whose first one waits as well."""
        groups = {group for (group,) in self._engine.rows(self._sql.waiting, (queue.number, limit))}
        return [group for group, row in self.firsts(queue, sorted(groups)).items() if row[1] == limits.BEHIND]
