"""Signs of life of a server of several processes, for the systemd that has started it.

Systemd ends a server that gives none for too long. The supervisor hardly ever stands still, so it gives one only while
the event loops of all other processes turn as well: each writes on the board once a second. A process that is being
replaced is the supervisor's to mend, and does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.server.board import Board
from penstock.server.systemd import Systemd
from penstock.server.workers.process import Process

# A process that has written nothing for so long stands still.
_STILL_S: Final = 5.0
# It may turn again before systemd has lost patience, whose next sign must then not wait for its turn.
_AGAIN_S: Final = 1.0
_NEVER: Final = float("inf")


class Watchdog:
    """`due` is when it wants to be asked again."""

    def __init__(self, systemd: Systemd, board: Board) -> None:
        self._systemd = systemd
        self._board = board
        self._status = ""
        self._still: list[str] = []
        self.due = _NEVER

    def begin(self, status: str) -> None:
        """The server serves."""
        self._status = status
        self.say_ready()
        if self._systemd.watchdog_s is not None:
            self.due = 0.0

    def say_ready(self) -> None:
        self._systemd.ready(self._status)

    def end(self) -> None:
        """The server stops, and gives no more signs of life: systemd has another time limit for that."""
        self.due = _NEVER
        self._systemd.stopping()

    def look(self, now: float, processes: Sequence[Process]) -> None:
        every_s = self._systemd.watchdog_s or _NEVER
        if now < self.due:
            return
        oldest = now - max(every_s, _STILL_S)
        still = [one.name for one in processes if one.is_ready and self._board.beat_at(one.name) < oldest]
        self.due = now + (min(every_s, _AGAIN_S) if still else every_s)
        if not still:
            self._systemd.lives()
        if still != self._still:
            self._still = still
            self._systemd.status(f"no sign of life of {', '.join(still)}" if still else self._status)
