"""The campaign: a short form of each fault, and what becomes of what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.__main__ import main
from soak.campaign import FAULTS, Campaign
from soak.fault import Counts, Fault, Lacking, Round, Violation
from soak.faults.databases import IN_TURN, OF_ONE_SERVER, DatabaseFault
from tests.docs.pages import ROOT
from tests.lacking import lacking

_NOTES = {"terminate": "sessions"}
BY_NAME = {fault.name: fault for fault in FAULTS}
# Of those whose rounds differ by their seed, one of each kind.
SEEDS = [
    ("kill", 1),  # a server of three processes, and gq
    ("kill", 6),  # MQ-Core's folders
    ("kill", 7),  # a directory of VSQS
    ("clock", 2),
    ("stop", 2),
    ("stop", 4),  # VSQS
    ("migration", 0),
    ("postgresql-failover", 1),
    ("mariadb-failover", 1),
]


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_a_short_form(name: str, seed: int, tmp_path: Path) -> None:
    run(BY_NAME[name], seed, tmp_path)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_what_a_database_may_suffer(kind: str, tmp_path: Path) -> None:
    counts = run(DatabaseFault(kind, IN_TURN), 1, tmp_path)
    for what in OF_ONE_SERVER:
        assert any(note.startswith(_NOTES.get(what, what)) for note in counts.notes), what
        assert f"{kind}-{what}" in BY_NAME


def run(fault: Fault, seed: int, folder: Path) -> Counts:
    round = Round(folder, seed, fault.short, is_short=True)
    try:
        counts = fault.run(round)
    except Lacking as error:
        lacking(fault.name, str(error))
    finally:
        round.history.close()
    assert counts.done >= fault.short
    assert counts.acked > 0
    return counts


def test_every_fault_has_a_short_form_and_a_goal() -> None:
    assert len(BY_NAME) == len(FAULTS)
    for fault in FAULTS:
        assert 0 < fault.short <= fault.goal, fault.name
        assert fault.how
        assert fault.unit


def test_every_fault_is_on_its_page() -> None:
    page = (ROOT / "docs" / "soak.md").read_text()
    for fault in FAULTS:
        words = fault.name.split("-")
        families = [f"`{'-'.join(words[:count])}-…`" for count in range(1, len(words))]
        assert any(name in page for name in (f"`{fault.name}`", *families)), fault.name


class Scripted:
    """A fault whose rounds go as they are told, and leave a file."""

    name = "scripted"
    how = "by the book"
    goal = 5
    unit = "steps"
    short = 2

    def __init__(self, *rounds: Counts | Exception) -> None:
        self._rounds = list(rounds)
        self.seeds: list[int] = []

    def run(self, round: Round) -> Counts:
        self.seeds.append(round.seed)
        (round.folder / "store").write_text("what is left")
        result = self._rounds.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_rounds_go_on_until_the_goal(tmp_path: Path) -> None:
    fault = Scripted(Counts(2, 10, 9), Counts(2, 10, 9), Counts(1, 1_000, 1_982))
    campaign = Campaign(tmp_path, 17, None)
    assert campaign.run([fault])
    assert fault.seeds[0] == 17
    assert len(set(fault.seeds)) == 3
    assert campaign.table().splitlines()[2].startswith("| scripted | by the book | 5 steps | 5 | 2,000 | 0 | ")
    assert list(tmp_path.iterdir()) == []


def test_a_finding_leaves_its_round_behind_and_says_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = Scripted(Violation(["a-1 is lost"], Counts(3, 5, 4)), Counts(2, 1, 1))
    campaign = Campaign(tmp_path, 17, None)
    assert not campaign.run([fault])
    [row] = campaign.rows
    assert (row.counts.done, row.counts.acked, row.findings) == (5, 5, 1)
    folder = tmp_path / "scripted-17"
    assert (folder / "store").read_text() == "what is left"
    assert "a-1 is lost" in (folder / "FINDINGS").read_text()
    assert 'make soak SOAK_ARGS="--only scripted --seed 17"' in capsys.readouterr().err


def test_a_round_that_fails_by_itself_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path, 17, None, is_short=True)
    assert not campaign.run([Scripted(ZeroDivisionError("whose fault?"), Counts(1))])
    assert "whose fault?" in capsys.readouterr().err


def test_what_a_machine_lacks_is_said(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 17, None)
    assert campaign.run([Scripted(Lacking("nothing can be mounted here"))])
    assert "nothing can be mounted here" in campaign.table()


def test_time_is_shared(tmp_path: Path) -> None:
    """Each has one round at least, however little time there is."""
    faults = [Scripted(Counts(1)), Scripted(Counts(1))]
    campaign = Campaign(tmp_path, 17, 0)
    assert campaign.run(faults)
    assert [row.counts.done for row in campaign.rows] == [1, 1]


def test_an_unknown_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "flood"])
    assert "there is no fault 'flood'; there are kill" in capsys.readouterr().err
