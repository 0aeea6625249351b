"""How often things are looked at, and how long is waited for them: values, passed from where a server is put together.

What an operator chooses is a setting (`server/config.py`) and ends up here; the rest has good defaults, and tests pass
what suits them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    # How soon an operation that found the store locked by another process tries again, and for how long it does.
    busy_retry_s: float = 0.001
    busy_patience_s: float = 10.0
    # How long callers wait for a store that does not answer.
    store_timeout_s: float = 5.0
    # How long one proof that the store can be written to is good for.
    prove_s: float = 1.0
    # How long a probe, or a scrape, waits for the store before it says that there was no answer. Orchestrators wait for
    # a second.
    probe_s: float = 0.8
    # How often a store is asked what other processes have changed, while claims wait.
    watch_s: float = 0.05
    # A notification may be lost on its way: waiting claims look again this often without one.
    look_anyway_s: float = 5.0
    # The pauses between two sweeps, two looks for unfinished moves, and two looks at the API keys.
    sweep_s: float = 1.0
    moves_s: float = 1.0
    keys_s: float = 1.0
    # The pause between two times that figures of queues are added to the store: so much of them a killed process loses.
    figures_s: float = 5.0
    # The pause between two times that a process keeps which API keys were used: so much of it a killed process loses.
    key_uses_s: float = 60.0
    # How long finished messages stay in the ledger.
    ledger_retention_ms: int = 30 * 24 * 60 * 60 * 1000
    # How much the ledger may hold; None for as much as it comes to.
    ledger_bytes: int | None = None
    # The pause between two looks whether the store has room to give back, and between two steps of that: while callers
    # want nothing of the store, and while they do.
    shrink_s: float = 10.0
    shrink_idle_s: float = 0.01
    shrink_busy_s: float = 0.25
    # How long actions stay in their log.
    actions_retention_ms: int = 90 * 24 * 60 * 60 * 1000
    # Wrong API keys that are answered as such, at once and per second; beyond, they are told to slow down.
    wrong_keys: float = 200.0
    wrong_keys_per_second: float = 10.0
