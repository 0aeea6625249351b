"""How the ledger's outcomes are called outside."""

from __future__ import annotations

from penstock.model import Outcome

_WORDS = {outcome: outcome.name.lower().replace("_", "-") for outcome in Outcome}


def outcome_word(outcome: Outcome) -> str:
    return _WORDS[outcome]
