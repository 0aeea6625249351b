"""Alert rules and dashboard: promtool understands them, and every series that they name is one that a server tells."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import Client
from penstock.timings import Timings
from tests.lacking import path_of
from tests.scraping import answer_under_load
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "penstock.json"
_NAME = re.compile(r"\bpenstock_\w+")


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return answer_under_load(tmp_path_factory.mktemp("metrics"))


@pytest.fixture(scope="module")
def series(answer: bytes) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(answer.decode()) for sample in family.samples}


def promtool(*words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([path_of("promtool"), *words], input=text, capture_output=True, cwd=RULES.parent)


def expressions() -> list[str]:
    def inside(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("expr", "query", "definition") and isinstance(value, str):
                    yield value
                else:
                    yield from inside(value)
        elif isinstance(node, list):
            for one in node:
                yield from inside(one)

    return [one for one in inside(json.loads(DASHBOARD.read_text())) if "penstock_" in one]


def test_promtool_finds_the_answer_of_a_server_right(answer: bytes) -> None:
    checked = promtool("check", "metrics", text=answer)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_rules_are_right_and_do_what_their_tests_say() -> None:
    checked = promtool("check", "rules", RULES.name)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", "alerts_test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_has_a_test() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = re.findall(r"alertname: (\w+)\n\s+exp_alerts", (RULES.parent / "alerts_test.yml").read_text())
    assert len(alerts) > 8
    assert set(alerts) == set(tested)


def test_rules_name_only_series_that_there_are(series: set[str]) -> None:
    named = set(_NAME.findall("\n".join(re.findall(r"expr: ((?:\|\n(?: {10,}.*\n)+)|.*)", RULES.read_text()))))
    assert len(named) > 8
    assert named <= series


def test_the_dashboard_names_only_series_that_there_are(series: set[str]) -> None:
    named = {name for one in expressions() for name in _NAME.findall(one)}
    assert len(named) > 20
    assert named <= series


def test_the_queries_of_the_dashboard_are_right(tmp_path: Path) -> None:
    queries = [one for one in expressions() if not one.startswith("label_values")]
    rules = [
        {"record": f"r:{number}", "expr": one.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for number, one in enumerate(queries)
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = promtool("check", "rules", "--lint=none", str(tmp_path / "rules.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in json.loads(DASHBOARD.read_text())["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)


def told_of_queues(talk: Talk) -> dict[tuple[str, str | None, str | None], float]:
    text = talk("GET", "/metrics", accept="application/openmetrics-text").body.decode()
    return {
        (sample.name, sample.labels.get("queue"), sample.labels.get("state")): sample.value
        for family in parse_open(text)
        for sample in family.samples
    }


def test_every_queue_is_told_one_by_one_or_together(tmp_path: Path) -> None:
    server = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", metrics_queues=2, timings=Timings(figures_s=0.02))
    try:
        with Client(server.url) as client:
            for number in range(4):
                client.create_queue(f"q{number}")
                for _ in range(number):
                    client.send(f"q{number}", "x")
            client.pause_queue("q3")
        told: dict[tuple[str, str | None, str | None], float] = {}

        def is_all_told() -> bool:
            """What was sent is kept before the queues are counted again."""
            nonlocal told
            with server.talk() as talk:
                told = told_of_queues(talk)
            ready = {queue: value for (name, queue, state), value in told.items() if state == "ready"}
            is_kept = told.get(("penstock_queue_sent_total", "q3", None)) == 3
            return is_kept and ready == {"q3": 3, "q2": 2, "(rest)": 1}

        wait_until(is_all_told)
    finally:
        server.stop()
    assert told["penstock_queues", None, None] == 4
    assert (told["penstock_queue_paused", "q3", None], told["penstock_queue_paused", "q2", None]) == (1, 0)
    assert ("penstock_queue_sent_total", "(rest)", None) not in told
