"""Counts, purge and unclaimall, for both services."""

from __future__ import annotations

import json

import pytest

from tests.faces.emodb.conftest import SUCCESS, Emo
from tests.servers import ThreadServer


def test_size_counts_claimed_messages_too(emo: Emo) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(30))))
    emo.poll("q", limit=7)
    assert emo.size("q") == 30
    assert emo.claim_count("q") == 7


@pytest.mark.parametrize("limit", [1, 5, 30, 1000, 10**15])
def test_a_limit_changes_nothing_about_an_exact_count(emo: Emo, limit: int) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(30))))
    assert emo.get(f"q/size?limit={limit}").json == 30


def test_claims_that_have_run_out_are_not_counted(emo: Emo, server: ThreadServer) -> None:
    emo.send("q", "1", "2")
    emo.poll("q", ttl=5)
    server.clock.advance(6)
    assert (emo.claim_count("q"), emo.size("q")) == (0, 2)


def test_purge_deletes_claimed_messages_too(emo: Emo) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(2500))))
    claimed = emo.poll("q", limit=10)
    assert emo.talk("DELETE", f"{emo.base}/q").json == SUCCESS
    assert (emo.size("q"), emo.claim_count("q"), emo.peek("q")) == (0, 0, [])
    emo.ack("q", claimed)
    emo.send("q", "1")
    assert emo.payloads("q") == [1]


def test_unclaimall_releases_every_claim(emo: Emo) -> None:
    emo.post("q/sendbatch", json.dumps(list(range(1500))))
    emo.poll("q", limit=1000, ttl=3600)
    emo.poll("q", limit=300, ttl=60)
    assert emo.claim_count("q") == 1300
    assert emo.post("q/unclaimall").json == SUCCESS
    assert emo.claim_count("q") == 0
    assert emo.payloads("q", limit=1000) == list(range(1000))


def test_unclaimall_leaves_other_queues_alone(emo: Emo) -> None:
    emo.send("a", "1")
    emo.send("b", "2")
    emo.poll("a")
    emo.poll("b")
    emo.post("a/unclaimall")
    assert (emo.claim_count("a"), emo.claim_count("b")) == (0, 1)
