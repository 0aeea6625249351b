"""Whether an event loop turns, as another sees it."""

from __future__ import annotations

import asyncio

from penstock.server.pulse import Pulse, beat_s


async def look(pulse: Pulse, seen: list[str], wanted: list[str]) -> None:
    async with asyncio.timeout(60):
        while seen != wanted:
            await asyncio.sleep(0.001)


async def test_a_loop_that_does_not_beat_stands_still_until_it_does() -> None:
    beats = [1.0]
    seen: list[str] = []
    pulse = Pulse(
        lambda: beats[0],
        0.01,
        asyncio.get_running_loop(),
        lambda: seen.append("stopped"),
        lambda: seen.append("again"),
    )
    pulse.start()
    await look(pulse, seen, ["stopped"])
    assert pulse.stands_still
    beats[0] += 1
    await look(pulse, seen, ["stopped", "again"])
    assert not pulse.stands_still


async def test_looks_are_counted_and_not_seconds() -> None:
    """One who was stopped together with the loop has looked once when both go on."""
    seen: list[str] = []
    pulse = Pulse(lambda: 1.0, 5.0, asyncio.get_running_loop(), lambda: seen.append("stopped"), lambda: None)
    for _ in range(10):
        pulse.start()
    assert seen == []
    pulse.start()
    assert seen == ["stopped"]


def test_a_beat_comes_often_enough_for_its_timeout_and_not_too_often() -> None:
    assert [beat_s(timeout) for timeout in (86400, 5, 1, 0.01)] == [0.5, 0.5, 0.1, 0.02]
