"""The picture of the peers is drawn from what a run has kept, and can be drawn again."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from bench.__main__ import main
from bench.beside import PEER, asked, summary
from bench.measure import absent, at_least
from bench.occasion import Occasion
from bench.peers.peer import Running
from bench.picture import PANELS, drawn
from bench.wire import Rate

FIGURES = {
    "sends": 40_000.0,
    "cycles": 10_000.0,
    "batch_sends": 240_000.0,
    "batch_claims": 90_000.0,
    "p50_us": 300.0,
    "p99_us": 600.0,
}


def peers(_effort):
    yield summary(f"{PEER}Penstock", "", [FIGURES])
    yield summary(f"{PEER}Rabbits & co", "", [{name: value / 2 for name, value in FIGURES.items()}])
    yield absent(f"{PEER}Unicorn", "–", "absent: it is not installed")


def nothing(_effort):
    yield at_least("something else", 1, 2.0)


@pytest.fixture
def svg(tmp_path, capsys):
    path = tmp_path / "figures.svg"
    assert main(["--svg", str(path)], {"peers": peers}, lambda _program: True) == 0
    return path


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_peer_has_a_bar_in_every_panel(svg):
    said = texts(svg.read_text())
    assert said.count("Penstock") == said.count("Rabbits & co") == len(PANELS)
    assert "40,000" in said
    assert "300 and 600" in said
    assert "Unicorn" in said[-1]
    assert "commit" in said[-1]


def test_the_longest_bar_is_the_fastest(svg):
    bars = [
        (bar.get("class"), float(bar.get("width")))
        for bar in ET.fromstring(svg.read_text()).iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert bars[:2] == [("ours", 410.0), ("theirs", 205.0)]


def test_it_can_be_drawn_again(svg):
    kept = json.loads(svg.with_suffix(".json").read_text())
    assert drawn(kept) == svg.read_text()
    assert kept["peers"]["Penstock"]["figures"] == FIGURES


def test_without_peers_there_is_no_picture(tmp_path, capsys):
    path = tmp_path / "figures.svg"
    assert main(["--svg", str(path)], {"nothing": nothing}, lambda _program: True) == 0
    assert not path.exists()
    assert "no peers were measured" in capsys.readouterr().err


def test_a_table_says_when_and_of_what_it_is(capsys):
    before = str(Occasion.now())
    assert main([], {"nothing": nothing}, lambda _program: True) == 0
    assert capsys.readouterr().out.splitlines()[0] in (before, str(Occasion.now()))  # at midnight, either of the days


def test_a_round_asks_for_everything_and_finds_the_busiest_load():
    def rate(per_second, cores):
        return lambda _seconds: Rate(per_second, 1, cores, 1.0)

    times = [number / 1e6 for number in range(1, 101)]
    running = Running(rate(4, 0.1), rate(3, 0.5), rate(2, 0.2), rate(1, 0.3), lambda _seconds: times, lambda *_: 0)
    figures = asked(running, 1)
    assert (figures["sends"], figures["cycles"], figures["batch_sends"], figures["batch_claims"]) == (4, 3, 2, 1)
    assert figures["p50_us"] == pytest.approx(51)
    assert figures["p99_us"] == pytest.approx(100)
    assert figures["load_cores"] == 0.5


def test_the_median_of_the_rounds_counts_and_their_spread_is_told():
    result = summary("a peer", "as it is", [{"sends": rate} for rate in (1_000.0, 3_000.0, 2_000.0)])
    assert result.figures == {"sends": 2_000.0}
    assert result.note == "as it is; sends 1,000 to 3,000"
