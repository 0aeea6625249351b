"""How often producers and consumers look at things, and how long they wait: one value, passed by the client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GqTimings:
    # However many consumers wait, the store is not asked more often for what other processes have changed.
    ask_s: float = 0.02
    # How often a waiting consumer looks whether other processes have changed anything, and whether to stop.
    look_s: float = 0.05
    # Notices can be lost: the queue itself is looked at this often.
    look_anyway_s: float = 1.0
    # A slow callback must not keep the outcomes before it waiting for longer.
    report_s: float = 0.1
    # How long a consumer that stops tries to tell a database that is away.
    leave_s: float = 10.0
    # How long a client that closes waits for callbacks to return.
    close_s: float = 10.0
    # How long what has happened waits until a unit adds it to the figures of the store.
    figures_s: float = 2.0
    # Numbers that are used much later than they were reserved would put their messages before those of others.
    reservation_s: float = 1.0
    # Clocks of one machine differ by less, unless one of them was set.
    jump_ms: int = 1_000
    # The pauses before a database that is away is tried again: the first, doubled until the longest.
    retry_first_s: float = 0.05
    retry_longest_s: float = 1.0
