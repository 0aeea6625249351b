"""Families as text: what a scraper reads is what was counted, in both formats."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from penstock.edge.http import Traffic
from penstock.faces.media import prefers
from penstock.faces.metrics import ServerReport, StoreReport, traffic_totals
from penstock.faces.metrics.families import families_of
from penstock.faces.metrics.routes import _NAMES_OF_TEXT, _OPEN
from penstock.faces.metrics.writing import Family, openmetrics_text, prometheus_text
from penstock.model import ProcessReport
from tests.lacking import path_of

NASTY = 'a"b\\c\nd{e}'


def report() -> ServerReport:
    traffic = Traffic("native", "POST", "/v1/queues/{queue}/claim")
    for status, seconds, waits in ((200, 0.0004, False), (200, 0.02, False), (503, 12.0, False), (200, 20.0, True)):
        traffic.note(status, seconds, waits)
    process = ProcessReport("server", 7, 1.25, 1 << 20, 3, 4, 1, 10, 100)
    return ServerReport([process], traffic_totals([traffic]), 1_700_000_000.5)


def samples(families) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_both_formats_say_the_same() -> None:
    plain = samples(parse_plain(prometheus_text(families_of(report(), StoreReport())).decode()))
    opened = samples(parse_open(openmetrics_text(families_of(report(), StoreReport())).decode()))
    created = {key: value for key, value in opened.items() if key[0].endswith("_created")}
    assert created
    assert set(created.values()) == {1_700_000_000.5}
    assert {key: value for key, value in opened.items() if key not in created} == plain
    route = (("api", "native"), ("method", "POST"), ("route", "/v1/queues/{queue}/claim"))
    assert plain["penstock_requests_total", (*route, ("status", "200"))] == 3
    assert plain["penstock_requests_total", (*route, ("status", "503"))] == 1
    name = "penstock_request_duration_seconds"
    first = {bound: plain[f"{name}_bucket", tuple(sorted((*route, ("le", bound))))] for bound in ("0.0005", "0.025")}
    assert first == {"0.0005": 1, "0.025": 2}
    assert plain[f"{name}_bucket", tuple(sorted((*route, ("le", "+Inf"))))] == plain[f"{name}_count", route] == 3
    assert plain[f"{name}_sum", route] == pytest.approx(12.0204)
    assert plain["penstock_waiting_request_duration_seconds_sum", route] == 20


def test_labels_may_hold_anything() -> None:
    family = Family("queue_messages", "gauge", "How many.", ("queue",), {(NASTY,): (2.5,)})
    for parse, text in ((parse_plain, prometheus_text([family])), (parse_open, openmetrics_text([family]))):
        [sample] = samples(parse(text.decode())).items()
        assert sample == (("penstock_queue_messages", (("queue", NASTY),)), 2.5)


def test_openmetrics_says_where_it_ends_and_what_is_measured() -> None:
    lines = openmetrics_text(families_of(report(), StoreReport())).decode().splitlines()
    assert lines[-1] == "# EOF"
    assert "# TYPE penstock_build info" in lines
    assert "# TYPE penstock_requests counter" in lines
    assert "# UNIT penstock_request_duration_seconds seconds" in lines
    # A total that began no one knows when has no word about it.
    family = Family("queue_sent", "counter", "Sent.", (), {(): (1,)})
    assert b"_created" not in openmetrics_text([family])


def test_promtool_finds_nothing_to_complain_about() -> None:
    text = prometheus_text(families_of(report(), StoreReport()))
    checked = subprocess.run([path_of("promtool"), "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    # And it would, if there were something.
    wrong = subprocess.run(
        [path_of("promtool"), "check", "metrics"],
        input=text.replace(b"requests_total", b"requests"),
        capture_output=True,
    )
    assert wrong.returncode


PROMETHEUS = (
    b"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    b"application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "opened"),
    [
        (b"", False),
        (b"*/*", False),
        (b"text/plain", False),
        (b"application/openmetrics-text", True),
        (PROMETHEUS, True),
        (b"application/openmetrics-text;q=0.4,text/plain;q=0.5", False),
        (b"application/openmetrics-text;q=0,*/*", False),
        (b"application/openmetrics-text;q=0.5,text/*;q=0.5", True),
    ],
)
def test_which_format_a_scraper_gets(accept: bytes, opened: bool) -> None:
    assert prefers(accept, _OPEN, _NAMES_OF_TEXT) == opened
