"""The simulation does what can be told by hand, and its costs are found in what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.scaling import Costs, fit, simulate

COSTS = Costs(load=8, edge_send=10, edge_frames=20, send=6, frames=5, unit=100, sync=90)


def test_one_connection_pays_for_everything_in_turn():
    alone = simulate(COSTS, edges=4, connections=1)
    assert 1e6 / alone.per_second == pytest.approx(8 + 10 + 20 + 6 + 5 + 100 + 90, rel=0.02)
    assert alone.committer_busy == pytest.approx((6 + 5 + 100 + 90) / 239, rel=0.02)


def test_where_edges_have_most_of_the_work_more_of_them_do_more():
    slow_edges = replace(COSTS, edge_send=200)
    one, two, four = (simulate(slow_edges, edges, connections=1024).per_second for edges in (1, 2, 4))
    assert one == pytest.approx(1e6 / 200, rel=0.05)
    assert two == pytest.approx(2 * one, rel=0.1)
    assert four == pytest.approx(4 * one, rel=0.2)


def test_a_committer_that_is_full_is_the_limit():
    full = simulate(COSTS, edges=16, connections=1024)
    assert full.committer_busy == pytest.approx(1, abs=0.05)
    assert 0.5 * 1e6 / COSTS.send < full.per_second < 1e6 / COSTS.send


def test_frames_cost_more_where_there_are_more_edges():
    dear_frames = replace(COSTS, frames=100)
    assert simulate(dear_frames, 16, 64).per_second < 0.8 * simulate(dear_frames, 2, 64).per_second


def test_it_says_the_same_each_time():
    assert simulate(COSTS, 4, 64) == simulate(COSTS, 4, 64)


SHARES = [(1, 0.3, 0.14), (1, 0.1, 0.03), (1, 0.07, 0.01), (1, 0.3, 0.03)]


def test_costs_are_found():
    measured = [6 + 5 * frames + 180 * units for _, frames, units in SHARES]
    assert fit(SHARES, measured) == pytest.approx([6, 5, 180])


def test_nothing_costs_less_than_nothing():
    measured = [6 - 5 * frames + 180 * units for _, frames, units in SHARES]
    send, frames, unit = fit(SHARES, measured)
    assert frames == 0
    assert send == pytest.approx(6, abs=2)
    assert unit == pytest.approx(180, abs=20)
