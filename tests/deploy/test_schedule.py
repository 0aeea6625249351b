"""The jobs on a schedule: what cron and systemd are told to run is what this program understands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.exceptions import NoSuchOption

from tests.commands import understood
from tests.docs.pages import ROOT
from tests.lacking import path_of

CRONTAB = ROOT / "deploy" / "cron" / "penstock-pipeline"
SERVICE = ROOT / "deploy" / "systemd" / "penstock-drain@.service"
TIMER = ROOT / "deploy" / "systemd" / "penstock-drain@.timer"
_ENTRY = re.compile(r"(?:[\d*/,-]+ ){5}penstock (?P<command>penstock .+?) 2>&1 \| logger -t (?P<tag>[\w-]+)")


def entries() -> list[re.Match[str]]:
    lines = [line for line in CRONTAB.read_text().splitlines() if line and line[0] in "0123456789*"]
    found = [_ENTRY.fullmatch(line) for line in lines]
    assert all(found), lines
    return [entry for entry in found if entry is not None]


def test_every_line_of_the_crontab_is_a_job() -> None:
    jobs = [understood(entry["command"]).info_name for entry in entries()]
    assert jobs == ["drain", "archive", "audit", "report"]
    assert [entry["tag"] for entry in entries()] == [f"penstock-{job}" for job in jobs]
    assert CRONTAB.read_text().endswith("\n")  # cron passes over a last line without it


def test_a_command_that_is_wrong_would_be_noticed() -> None:
    with pytest.raises(NoSuchOption):
        understood("penstock pipeline drain --queue q --lake x --shards 3")


def test_the_service_runs_a_drain() -> None:
    [line] = re.findall(r"^ExecStart=/opt/penstock/bin/(.+)$", SERVICE.read_text(), re.MULTILINE)
    [lake] = re.findall(r"^Environment=LAKE=(.+)$", SERVICE.read_text(), re.MULTILINE)
    context = understood(line.replace("%i", "orders").replace("${LAKE}", lake))
    assert (context.info_name, context.params["queue"], context.params["lake"]) == ("drain", "orders", lake)
    assert context.params["wait"]
    [state] = re.findall(r"^StateDirectory=(.+)$", SERVICE.read_text(), re.MULTILINE)
    assert lake == f"/var/lib/{state}"


def test_units_are_understood(tmp_path: Path) -> None:
    """With a program that is here: systemd looks whether there is one."""
    analyze = path_of("systemd-analyze")
    here = shutil.which("penstock") or sys.executable
    units = []
    for unit in (SERVICE, TIMER):
        copy = tmp_path / unit.name.replace("@", "@orders")
        copy.write_text(unit.read_text().replace("/opt/penstock/bin/penstock", here))
        units.append(copy)
    done = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if "penstock-drain" in line]
    assert (done.returncode, about) == (0, [])


def test_the_timer_comes_four_times_an_hour() -> None:
    [when] = re.findall(r"^OnCalendar=(.+)$", TIMER.read_text(), re.MULTILINE)
    command = [path_of("systemd-analyze"), "calendar", "--iterations=4", "--base-time=2026-01-01 00:00:01 UTC", when]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"TZ": "UTC"})
    assert re.findall(r"(?:elapse|[Ii]ter(?:ation|\.) #\d): \w+ 2026-01-01 (\d\d:\d\d):00", done.stdout) == [
        "00:15",
        "00:30",
        "00:45",
        "01:00",
    ]
