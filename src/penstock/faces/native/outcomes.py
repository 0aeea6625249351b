"""How the ledger's outcomes, and what becomes of moves, are called outside."""

from __future__ import annotations

from penstock.model import MoveStatus, Outcome

_WORDS = {outcome: outcome.name.lower().replace("_", "-") for outcome in Outcome}
_STATUSES = {status: status.name.lower().replace("_", "-") for status in MoveStatus}


def outcome_word(outcome: Outcome) -> str:
    return _WORDS[outcome]


def status_word(status: MoveStatus) -> str:
    return _STATUSES[status]
