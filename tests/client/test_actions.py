"""The log of actions through the client."""

from __future__ import annotations

import pytest

from penstock.client import InvalidRequest


def test_the_latest_come_first_page_by_page(server, connect):
    with connect(server.url) as client:
        for name in ("a", "b", "c"):
            client.create_queue(name)
        client.purge("b")
        client.delete_queue("a")
        found = list(client.actions(per_page=2))
        assert [(one.what, one.queue) for one in found] == [
            ("queue.delete", "a"),
            ("queue.purge", "b"),
            ("queue.create", "c"),
            ("queue.create", "b"),
            ("queue.create", "a"),
        ]
        assert (found[1].count, found[1].key, found[1].via, found[1].detail) == (0, None, "native", None)
        assert list(client.actions(before=found[2].number)) == found[3:]
        assert list(client.actions(queue="b")) == [found[1], found[3]]
        assert list(client.actions(queue="b", what="queue.purge", since=found[1].at)) == [found[1]]
        assert list(client.actions(until=found[-1].at)) == []
        assert list(client.actions(key="ops")) == []


def test_a_kind_that_there_is_not(server, connect):
    with connect(server.url) as client, pytest.raises(InvalidRequest, match=r"queue\.purge"):
        list(client.actions(what="anything"))
