"""Decisions about messages."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ids, policy
from penstock.model import Backoff, Dedup, Draft, Redrive, Settings
from penstock.policy import Verdict

times = st.integers(0, 2**42)
durations = st.integers(1, 2**41)
receives = st.integers(0, 10)


def settings(retention_ms: int = 1_000, max_receives: int | None = None, **more: object) -> Settings:
    redrive = None if max_receives is None else Redrive(max_receives, "dead")
    return Settings(retention_ms=retention_ms, redrive=redrive, **more)


@pytest.mark.parametrize(
    ("now", "receives", "deadline_at", "verdict"),
    [
        (100, 0, None, Verdict.DELIVER),
        (100, 1, None, Verdict.DELIVER),
        (100, 2, None, Verdict.DEAD_LETTER),
        (100, 3, None, Verdict.DEAD_LETTER),
        (1_099, 0, None, Verdict.DELIVER),
        (1_100, 0, None, Verdict.EXPIRE),
        (1_100, 2, 500, Verdict.EXPIRE),
        (499, 0, 500, Verdict.DELIVER),
        (500, 0, 500, Verdict.FAIL),
        (500, 2, 500, Verdict.FAIL),
    ],
)
def test_expiry_comes_before_the_deadline_and_the_deadline_before_dead_letters(
    now: int, receives: int, deadline_at: int | None, verdict: Verdict
) -> None:
    assert policy.judge(settings(max_receives=2), now, 100, receives, deadline_at) is verdict


@given(durations, times, times, receives, st.none() | times)
def test_without_a_redrive_nothing_is_a_dead_letter(
    retention_ms: int, now: int, sent_at: int, receives: int, deadline_at: int | None
) -> None:
    assert policy.judge(settings(retention_ms), now, sent_at, receives, deadline_at) is not Verdict.DEAD_LETTER


@given(durations, st.none() | st.integers(1, 10), times, times, durations, receives, st.none() | times)
def test_what_time_has_ended_it_never_gives_back(
    retention_ms: int,
    max_receives: int | None,
    now: int,
    sent_at: int,
    later: int,
    receives: int,
    deadline_at: int | None,
) -> None:
    made = settings(retention_ms, max_receives)
    before = policy.judge(made, now, sent_at, receives, deadline_at)
    after = policy.judge(made, now + later, sent_at, receives, deadline_at)
    if before is Verdict.EXPIRE:
        assert after is Verdict.EXPIRE
    if before is not Verdict.DELIVER:
        assert after is not Verdict.DELIVER


@given(durations, times)
def test_a_message_expires_at_the_end_of_its_retention_and_not_before(retention_ms: int, sent_at: int) -> None:
    made = settings(retention_ms)
    assert not policy.is_expired(made, sent_at + retention_ms - 1, sent_at)
    assert policy.is_expired(made, sent_at + retention_ms, sent_at)


@given(times, st.integers(0, 2**41), st.none() | st.integers(0, 2**41))
def test_the_messages_own_delay_wins_over_the_queues(now: int, queue_ms: int, own_ms: int | None) -> None:
    delay = queue_ms if own_ms is None else own_ms
    expected = now + delay if delay else 0
    assert policy.ready_at(settings(delay_ms=queue_ms), own_ms, now) == expected


@pytest.mark.parametrize(("receives", "wait"), [(0, 0), (1, 100), (2, 200), (3, 400), (4, 700), (5, 700), (10**9, 700)])
def test_a_backoff_doubles_up_to_its_most(receives: int, wait: int) -> None:
    assert policy.backoff_ms(settings(backoff=Backoff(100, 700)), receives) == wait
    assert policy.backoff_ms(settings(), receives) == 0


def test_a_message_that_is_not_tried_again_does_not_wait() -> None:
    made = settings(max_receives=2, backoff=Backoff(100, 700))
    assert [policy.backoff_ms(made, receives) for receives in (1, 2, 3)] == [100, 0, 0]


@given(st.binary(), st.none() | st.binary(min_size=1))
def test_a_dedup_key_is_the_callers_or_the_hash_of_the_body(body: bytes, own: bytes | None) -> None:
    hashed = ids.body_hash(body)
    assert hashed == sha256(body).digest()
    draft = Draft(body, dedup_key=own)
    assert policy.dedup_key(settings(), draft, hashed) is None
    for dedup in (Dedup.SEND, Dedup.CLAIM):
        assert policy.dedup_key(settings(dedup=dedup), draft, hashed) == (own or hashed[:16])


@given(st.none() | st.binary(min_size=1), st.binary())
def test_a_message_that_moves_keeps_its_key_and_gets_one_where_it_needs_one(key: bytes | None, hashed: bytes) -> None:
    assert policy.dedup_key_on_arrival(settings(), key, hashed) == key
    for dedup in (Dedup.SEND, Dedup.CLAIM):
        assert policy.dedup_key_on_arrival(settings(dedup=dedup), key, hashed) == (key or hashed[:16])
