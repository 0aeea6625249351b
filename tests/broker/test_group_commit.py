"""Operations that arrive together share a unit, and like ones become one call of the store."""

from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Receipt
from tests.broker.conftest import Bench, bodies, receipt, result, results


async def test_operations_of_one_turn_share_one_unit(bench: Bench) -> None:
    await results(
        bench.send(b"a"),
        bench.broker.claim("q", 1),
        bench.broker.ack([Receipt("none")]),
        bench.in_unit(lambda unit, now: unit.count("q", now, 10)),
        bench.send(b"b"),
    )
    [unit] = bench.store.units
    assert [verb for verb, _ in unit.verbs] == ["count", "send", "ack", "claim"]


async def test_operations_of_later_turns_take_a_unit_each(bench: Bench) -> None:
    await result(bench.send(b"a"))
    await result(bench.send(b"b"))
    assert len(bench.store.units) == 2


async def test_a_turn_that_only_looks_takes_a_unit_that_does_not_write(bench: Bench) -> None:
    await results(
        bench.broker.peek("q", 1),
        bench.broker.find_queues(["q"]),
    )
    assert [unit.write for unit in bench.store.units] == [False]
    await results(bench.broker.peek("q", 1), bench.send(b"a"))
    assert [unit.write for unit in bench.store.units] == [False, True]


async def test_sixty_four_claims_of_one_are_one_claim_dealt_out_in_order_of_arrival(bench: Bench) -> None:
    numbers = [str(number).encode() for number in range(64)]
    await bench.fill(*numbers)
    dealt = await results(*(bench.broker.claim("q", 1) for _ in range(64)))
    [unit] = bench.store.units
    assert [args[:2] for args in unit.asked("claim")] == [("q", 64)]
    assert [bodies(share) for share in dealt] == [[number] for number in numbers]


async def test_claims_of_several_are_dealt_out_until_nothing_is_left(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4", b"5")
    dealt = await results(*(bench.broker.claim("q", limit) for limit in (2, 1, 3, 4)))
    assert [bodies(share) for share in dealt] == [[b"1", b"2"], [b"3"], [b"4", b"5"], []]


async def test_claims_with_another_hold_are_another_claim_of_the_store(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    dealt = await results(*(bench.broker.claim("q", 1, hold) for hold in (1_000, 5_000, 1_000)))
    [unit] = bench.store.units
    assert [(args[1], args[3]) for args in unit.asked("claim")] == [(2, 1_000), (1, 5_000)]
    held = [share[0].ready_at - share[0].sent_at for share in dealt]
    assert held[0] == held[2] == held[1] - 4_000


async def test_sends_to_one_queue_are_one_send_and_each_gets_its_own_results(bench: Bench) -> None:
    await bench.create("other")
    first, other, third, empty = await results(
        bench.send(b"1", b"2", b"3"), bench.send(b"x", to="other"), bench.send(b"4"), bench.send()
    )
    [unit] = bench.store.units
    assert [(args[0], len(args[1])) for args in unit.asked("send")] == [("other", 1), ("q", 4)]
    claimed = await result(bench.broker.claim("q", 10))
    assert bodies(claimed) == [b"1", b"2", b"3", b"4"]
    assert [one.id for one in first + third] == [message.id for message in claimed]
    assert [one.id for one in other] == [(await result(bench.broker.claim("other", 1)))[0].id]
    assert empty == []


async def test_acks_are_one_ack_and_each_gets_its_own_results(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    one, two, three = map(receipt, await result(bench.broker.claim("q", 3)))
    stale = Receipt(one.id, one.claim + 1, "q")
    bench.forget()
    acked = await results(
        bench.broker.ack([one, stale]),
        bench.broker.ack([]),
        bench.broker.ack([stale, two, Receipt("none")]),
        bench.broker.ack([one, three]),
    )
    assert acked == [[True, False], [], [False, True, False], [False, True]]
    [unit] = bench.store.units
    assert len(unit.asked("ack")) == 1
    assert await bench.count() == 0


async def test_a_claim_finds_what_is_sent_in_the_same_unit(bench: Bench) -> None:
    claimed, _ = await results(bench.broker.claim("q", 1), bench.send(b"new"))
    assert bodies(claimed) == [b"new"]
    assert len(bench.store.units) == 1


@pytest.mark.parametrize("limits", [Limits(unit_operations=3)])
async def test_what_does_not_fit_into_a_unit_goes_into_the_next(bench: Bench) -> None:
    await results(*(bench.send(str(number).encode()) for number in range(7)))
    assert [len(unit.asked("send")[0][1]) for unit in bench.store.units] == [3, 3, 1]
    assert await bench.seen() == [str(number).encode() for number in range(7)]


async def test_what_a_listener_asks_for_goes_into_the_next_unit(bench: Bench) -> None:
    following = []
    bench.send(b"first").listen(lambda _sent: following.append(bench.send(b"second")), pytest.fail)
    await bench.turn()
    await results(*following)
    assert await bench.seen() == [b"first", b"second"]


async def test_an_unknown_queue_among_good_ones_fails_alone(bench: Bench) -> None:
    good, bad, bad_claim, bad_work, claimed = await results(
        bench.send(b"good"),
        bench.send(b"bad", to="nowhere"),
        bench.broker.claim("nowhere", 1),
        bench.broker.delete_queue("nowhere"),
        bench.broker.claim("q", 1),
    )
    assert good[0].stored
    assert bodies(claimed) == [b"good"]
    assert [type(error) for error in (bad, bad_claim, bad_work)] == [QueueNotFound] * 3
    assert len(bench.store.units) == 1


@pytest.mark.parametrize("limits", [Limits(claim_rows=5)])
async def test_claims_stop_at_the_rows_of_a_unit_and_the_others_are_served_next(bench: Bench) -> None:
    await bench.fill(*(str(number).encode() for number in range(9)))
    dealt = await results(*(bench.broker.claim("q", 3) for _ in range(4)))
    assert [bodies(share) for share in dealt] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7", b"8"], []]
    assert [args[1] for unit in bench.store.units for args in unit.asked("claim")] == [3, 3, 3, 3]


@pytest.mark.parametrize("limits", [Limits(claim_rows=2)])
async def test_a_claim_larger_than_that_is_served_on_its_own(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3", b"4")
    dealt = await results(bench.broker.claim("q", 3), bench.broker.claim("q", 1))
    assert [bodies(share) for share in dealt] == [[b"1", b"2", b"3"], [b"4"]]


@pytest.mark.parametrize("limits", [Limits(claim_bytes=1_000)])
async def test_claims_stop_at_the_bytes_of_a_claim_and_the_others_are_served_next(bench: Bench) -> None:
    small = [str(number).encode() * 10 for number in range(8)]
    large = [letter * 900 for letter in (b"a", b"b", b"c", b"d")]
    await bench.fill(*small, *large)
    dealt = await results(*(bench.broker.claim("q", 2) for _ in range(7)))
    # The fifth claim gets one large message less than it asked for, because the unit has handed out enough.
    assert b"".join(body for share in dealt for body in bodies(share)) == b"".join(small + large)
    assert [len(share) for share in dealt[:4]] == [2, 2, 2, 2]
    assert all(dealt[:6])
    for unit in bench.store.kept():
        assert len(unit.asked("claim")) == 1
    assert len(bench.store.kept()) > 1


@pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
async def test_a_large_body_alone_is_handed_out_whatever_its_size(bench: Bench) -> None:
    await bench.fill(b"x" * 100, b"y" * 100)
    dealt = await results(bench.broker.claim("q", 2), bench.broker.claim("q", 2), bench.broker.claim("q", 2))
    assert [bodies(share) for share in dealt] == [[b"x" * 100], [b"y" * 100], []]
