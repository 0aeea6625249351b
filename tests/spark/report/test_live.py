from __future__ import annotations

from penstock.client import Client, History
from penstock.spark.report.axis import HOUR_MS, Axis, make_axis
from penstock.spark.report.live import held, over_time
from tests.servers import ThreadServer

EIGHT = 1_791_532_800_000
MINUTE = 60_000


def history(since: list[int], ready: list[int | None], ages: list[int | None]) -> History:
    nothing = [0] * len(since)
    rest = dict.fromkeys(
        (
            "sent",
            "claims",
            "redelivered",
            "acked",
            "expired",
            "dead_lettered",
            "failed",
            "purged",
            "moved",
            "collapsed",
        ),
        nothing,
    )
    claimed = [None if it is None else 1 for it in ready]
    return History("day", 10 * MINUTE, since, ready, claimed, claimed, ages, **rest)


def test_a_stretch_has_what_was_counted_last_in_it() -> None:
    since = [EIGHT + number * 10 * MINUTE for number in range(-1, 13)]
    ready: list[int | None] = [None, 1, 2, 3, 4, 5, 6, 7, None, 9, *[None] * 4]
    told = over_time(
        history(since, ready, [None if it is None else it * 100 for it in ready]), Axis(EIGHT, HOUR_MS, 3), 5
    )
    assert (told.total, told.depths, told.ages) == (5, [6 + 2, 9 + 2, None], [600, 900, None])


def test_a_server_tells_what_its_queues_hold_and_leaves_out_those_it_has_not(server: ThreadServer) -> None:
    with Client(server.url) as client:
        client.create_queue("q")
        client.send_many("q", ["1", "2"])
        now = client.history("q", "hour").since[-1]
        found = held(client, ["q", "gone"], make_axis(now - 5 * HOUR_MS, now))
        assert {name: it.total for name, it in found.items()} == {"q": 2}
        assert len(found["q"].depths) == make_axis(now - 5 * HOUR_MS, now).count
        assert held(client, ["q"], Axis(EIGHT, 1000, 3))["q"].depths == (), "a server does not count every second"
