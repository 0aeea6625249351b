"""The page about metrics: its tables are what a server under a little load answers."""

from __future__ import annotations

import re

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.pages import DOCS, prose_of
from tests.scraping import answer_under_load

_ROW = re.compile(r"\| `(penstock_\w+)` \| (\w+) \|(.*?)\| .+ \|")


def documented() -> dict[str, tuple[str, set[str]]]:
    rows = _ROW.findall(prose_of(DOCS / "metrics.md"))
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    answer = answer_under_load(tmp_path_factory.mktemp("metrics"))
    return list(text_string_to_metric_families(answer.decode()))


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
