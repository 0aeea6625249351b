from __future__ import annotations

import pytest

from tests.talk import Talk

PLAIN = {"retention_timeout": 600, "visibility_timeout": 30, "message_deduplication": False}


@pytest.fixture
def queue(talk: Talk) -> str:
    """A plain queue called q."""
    assert talk("PUT", "/queues/q", PLAIN).status == 201
    return "q"
