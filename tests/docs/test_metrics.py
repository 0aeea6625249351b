"""The page about metrics: its tables are what a server under a little load answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import Client
from tests.docs.pages import DOCS, prose_of
from tests.servers import ThreadServer

_ROW = re.compile(r"\| `(penstock_\w+)` \| (\w+) \|(.*?)\| .+ \|")


def documented() -> dict[str, tuple[str, set[str]]]:
    rows = _ROW.findall(prose_of(DOCS / "metrics.md"))
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Metric]]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    server = ThreadServer(f"sqlite:///{folder}/penstock.db")
    try:
        with Client(server.url) as client:
            client.create_queue("q")
            client.send("q", "x")
            [message] = client.claim("q")
            client.ack("q", [message.receipt])
            client.claim("q", wait_ms=10)
        with server.talk() as talk:
            text = talk("GET", "/metrics").body.decode()
        yield list(text_string_to_metric_families(text))
    finally:
        server.stop()


def test_the_tables_name_every_series_and_no_other(families: list[Metric]) -> None:
    answered = {f"{one.name}_total" if one.type == "counter" else one.name: one for one in families}
    assert documented().keys() == answered.keys()


def test_types_and_labels_are_right(families: list[Metric]) -> None:
    table = documented()
    for family in families:
        kind, labels = table[f"{family.name}_total" if family.type == "counter" else family.name]
        assert family.type == kind, family.name
        assert family.samples, family.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels, family.name
