from __future__ import annotations

import json

import pytest

from penstock.spark.demo.orders import order_lines


def parsed(line: str) -> dict[str, object] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


@pytest.mark.parametrize("count", [1, 9, 10, 500])
def test_there_are_as_many_as_were_asked_for(count: int) -> None:
    assert len(list(order_lines(count, 1, "noon"))) == count


def test_the_same_seed_makes_the_same_orders_and_another_others() -> None:
    assert list(order_lines(50, 1, "noon")) == list(order_lines(50, 1, "noon"))
    assert list(order_lines(50, 1, "noon")) != list(order_lines(50, 2, "noon"))


def test_some_come_twice_some_go_nowhere_and_one_is_broken() -> None:
    lines = list(order_lines(2000, 1, "noon"))
    assert 10 < len(lines) - len(set(lines)) < 100
    orders = [parsed(line) for line in lines]
    assert orders.count(None) == 1
    assert 5 < sum(order is not None and order["country"] == "Atlantis" for order in orders) < 60
