"""The pages that are measured are there, over a store that is filled as the measure does it."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench import console, servers
from penstock.client import Client


def test_every_page_that_is_measured_is_served(tmp_path):
    console.fill(tmp_path, queues=20, messages=10_000)
    with servers.penstock(tmp_path) as (url, _):
        with Client(url) as client:
            assert len(list(client.queues())) == 20
            assert client.queue("queue-00010").count.total == 5_450
        with closing(console.Browser(url)) as browser:
            for page in console.PAGES.values():
                assert browser.open(page.replace(console.QUEUE, "queue-00010")) > 0


def test_what_is_not_a_page_is_not_measured(tmp_path):
    with (
        servers.penstock(tmp_path) as (url, _),
        closing(console.Browser(url)) as browser,
        pytest.raises(RuntimeError, match="answered 404"),
    ):
        browser.open("/console/queues/absent")
