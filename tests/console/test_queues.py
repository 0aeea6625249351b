"""The overview and the page of a queue in a browser: what people do there, and what changes by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.timings import Timings
from tests.console.conftest import Visitor, Visitors, server_with_keys
from tests.servers import ThreadServer

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def timings() -> Timings:
    """Of a server that looks at its queues often, so that figures come soon."""
    return Timings(figures_s=0.2)


def tile(page: Page, title: str) -> object:
    return page.locator(".tile").filter(has=page.get_by_text(title, exact=True)).locator("dd")


def row(page: Page, queue: str) -> object:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=queue, exact=True))


def test_a_queue_from_its_making_to_its_end(visitor: Visitor, server: ThreadServer) -> None:
    page = visitor.page
    visitor.go()
    page.get_by_role("link", name="New queue").click()
    visitor.picture("new-queue")
    visitor.expected.add("422")
    page.get_by_label("Name").fill("orders today")
    page.get_by_role("button", name="Make the queue").click()
    expect(page.get_by_role("alert").get_by_text("a queue name is 1 to 255")).to_be_visible()
    page.get_by_label("Name").fill("orders")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Claims hold for").fill("5 min")
    page.get_by_role("button", name="Make the queue").click()
    expect(page.get_by_text("The queue orders is made.")).to_be_visible()
    expect(page.locator("dd").get_by_text("5m", exact=True)).to_be_visible()
    assert visitor.violations() == []

    page.get_by_role("link", name="Change").click()
    page.get_by_label("Messages expire after").fill("soon")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").get_by_text("'soon' is not a duration")).to_be_visible()
    visitor.picture("settings-refused")
    assert visitor.violations() == []
    page.get_by_label("Messages expire after").fill("7d")
    page.get_by_label("Labels").fill("team=shop")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings of orders are changed.")).to_be_visible()
    expect(page.get_by_text("team=shop")).to_be_visible()

    with server.talk() as talk:
        messages = [{"body": f"message {number}"} for number in range(12)]
        assert talk("POST", "/v1/queues/orders/messages", {"messages": messages}).status == 201
        # The page notices by itself.
        expect(tile(page, "Ready")).to_have_text("12")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("orders is paused: claims find nothing")).to_be_visible()
        assert talk("POST", "/v1/queues/orders/claim", {}).json == {"messages": []}
        visitor.picture("queue-paused")
        assert visitor.violations() == []
        visitor.go()
        expect(row(page, "orders")).to_contain_text("paused")
        visitor.picture("overview-paused")
        row(page, "orders").get_by_role("link").click()
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_text("orders is resumed")).to_be_visible()
        expect(page.locator("#state .pill")).to_have_count(0)
        assert len(talk("POST", "/v1/queues/orders/claim", {"limit": 2}).json["messages"]) == 2
        expect(tile(page, "Claimed")).to_have_text("2")
    page.get_by_role("button", name="Release all claims").click()
    expect(page.get_by_text("2 claims of orders ended.")).to_be_visible()

    page.get_by_role("link", name="Purge").click()
    visitor.picture("purge")
    assert visitor.violations() == []
    page.get_by_label("To go on, type").fill("orders")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("12 messages of orders purged.")).to_be_visible()
    expect(tile(page, "Ready")).to_have_text("0")

    page.get_by_role("link", name="Delete the queue").click()
    expect(page.get_by_role("button", name="Delete the queue")).to_be_disabled()
    page.get_by_label("To go on, type").fill("order")
    expect(page.get_by_role("button", name="Delete the queue")).to_be_disabled()
    visitor.picture("delete")
    page.get_by_label("To go on, type").fill("orders")
    page.get_by_role("button", name="Delete the queue").click()
    expect(page.get_by_text("The queue orders and its messages are deleted.")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(0)


@pytest.fixture
def busy(server: ThreadServer) -> ThreadServer:
    with server.talk() as talk:
        for name in ("orders-dead", "mail.welcome", "payments", "a-rather-long-name-of-a-queue-that-goes-on"):
            assert talk("PUT", f"/v1/queues/{name}", {}).status == 201
        redrive = {"redrive": {"max_receives": 3, "dead_letter_queue": "orders-dead"}, "labels": {"team": "shop"}}
        assert talk("PUT", "/v1/queues/orders", redrive).status == 201
        messages = [{"body": f"message {number}"} for number in range(40)]
        talk("POST", "/v1/queues/orders/messages", {"messages": messages})
        claimed = talk("POST", "/v1/queues/orders/claim", {"limit": 10}).json["messages"]
        talk("POST", "/v1/queues/orders/ack", {"receipts": [one["receipt"] for one in claimed[:6]]})
        assert talk("PUT", "/v1/queues/orders/shipments/etl/1", {"limit": 5}).status == 201
        talk("POST", "/v1/queues/payments/pause")
    return server


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_charts_are_drawn_and_can_be_read_as_tables(
    busy: ThreadServer, visitors: Visitors, dark: bool, phone: bool
) -> None:
    """The visitors complain of anything that the content security policy had to stop."""
    visitor = visitors(busy.url, dark=dark, phone=phone)
    look = f"{'phone' if phone else 'wide'}-{'dark' if dark else 'light'}"
    page = visitor.page
    visitor.go()
    expect(row(page, "orders").locator("svg.spark")).to_have_count(2)
    visitor.picture(f"overview-{look}")
    assert visitor.violations() == []
    visitor.go("/console/queues/orders")
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.locator(".chart-state").filter(has_text="Loading")).to_have_count(0)
    expect(page.get_by_role("rowheader", name="etl")).to_be_visible()
    visitor.picture(f"queue-{look}")
    assert visitor.violations() == []
    assert page.evaluate(OVERFLOW) <= 0
    table = page.locator("#chart-depth")
    table.get_by_text("As a table").click()
    latest = table.locator(".figures tr").nth(1)
    expect(latest.get_by_role("cell").nth(1)).to_have_text("25")
    expect(latest.get_by_role("cell").nth(3)).to_have_text("9")
    assert visitor.violations() == []
    page.get_by_role("link", name="Last day").click()
    expect(page.locator(".chart canvas")).to_have_count(4)
    page.locator("#chart-flow").get_by_text("As a table").click()
    expect(page.locator("#chart-flow .figures tr")).to_have_count(145)
    visitor.go("/console/queues/orders/settings")
    visitor.picture(f"settings-{look}")
    assert visitor.violations() == []
    assert page.evaluate(OVERFLOW) <= 0


def test_numbers_change_by_themselves(busy: ThreadServer, visitors: Visitors) -> None:
    overview, queue = visitors(busy.url), visitors(busy.url)
    overview.go("/console?filter=orders&sort=name")
    queue.go("/console/queues/orders")
    queue.page.locator("#chart-depth").get_by_text("As a table").click()
    expect(row(overview.page, "orders")).to_contain_text("25")
    with busy.talk() as talk:
        talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "one more"}] * 7})
        talk("PUT", "/v1/queues/orders-new", {})
    expect(row(overview.page, "orders")).to_contain_text("32")
    expect(overview.page.get_by_role("rowheader", name="orders-new")).to_be_visible()
    expect(tile(queue.page, "Ready")).to_have_text("32")
    latest = queue.page.locator("#chart-depth .figures tr").nth(1)
    expect(latest.get_by_role("cell").nth(1)).to_have_text("32")


def test_a_queue_that_is_deleted_meanwhile_says_so(busy: ThreadServer, visitors: Visitors) -> None:
    visitor = visitors(busy.url)
    visitor.go("/console/queues/mail.welcome")
    expect(visitor.page.locator(".chart canvas")).to_have_count(4)
    visitor.expected.add("404")
    with busy.talk() as talk:
        talk("DELETE", "/v1/queues/mail.welcome")
    expect(visitor.page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(visitor.page.get_by_text("Queue 'mail.welcome' does not exist.")).to_be_visible()
    visitor.picture("queue-gone")
    visitor.page.get_by_role("link", name="To the queues").click()
    expect(row(visitor.page, "orders")).to_be_visible()


def test_a_key_that_may_only_look_is_offered_nothing_else(tmp_path: Path, visitors: Visitors) -> None:
    rules = {"boss": ("queue|*|*",), "looker": ("queue|get_status|orders",)}
    with server_with_keys(tmp_path, **rules) as (server, secrets):
        boss, looker = visitors(server.url), visitors(server.url)
        boss.sign_in(secrets["boss"])
        boss.page.get_by_role("link", name="New queue").click()
        boss.page.get_by_label("Name").fill("orders")
        boss.page.get_by_role("button", name="Make the queue").click()
        looker.sign_in(secrets["looker"])
        row(looker.page, "orders").get_by_role("link").click()
        expect(looker.page.locator(".chart canvas")).to_have_count(4)
        for name in ("Pause", "Release all claims", "Purge", "Delete the queue", "Change", "Settings"):
            expect(boss.page.get_by_role("main").get_by_text(re.compile(f"^{name}")).first).to_be_attached()
        for role, name in (("button", "Pause"), ("button", "Release"), ("link", "Purge"), ("link", "Delete")):
            expect(looker.page.get_by_role(role, name=name)).to_have_count(0)
        # What one does, the other sees.
        boss.page.get_by_role("button", name="Pause").click()
        expect(looker.page.locator("#state .pill")).to_have_text("paused")
        looker.picture("queue-looker")
