"""The ledger and the log of actions in a browser: from a failure to the message that failed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Visitors
from tests.servers import ThreadServer

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
def failures(server: ThreadServer) -> ThreadServer:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders-dead", {})
        redrive = {"max_receives": 1, "dead_letter_queue": "orders-dead"}
        talk("PUT", "/v1/queues/orders", {"ledger": "bodies", "redrive": redrive})
        talk("PUT", "/v1/queues/mail", {})
        messages = [{"body": HOSTILE, "content_type": "text/html"}] * 3 + [{"body": "{}"}]
        talk("POST", "/v1/queues/orders/messages", {"messages": messages})
        claimed = talk("POST", "/v1/queues/orders/claim", {"limit": 10}).json["messages"]
        talk("POST", "/v1/queues/orders/release", {"receipts": [one["receipt"] for one in claimed]})
        talk("POST", "/v1/queues/orders/claim", {"limit": 10})
        talk("POST", "/v1/queues/mail/messages", {"messages": [{"body": "good"}]})
        [mail] = talk("POST", "/v1/queues/mail/claim", {}).json["messages"]
        talk("POST", "/v1/queues/mail/ack", {"receipts": [mail["receipt"]]})
    return server


@pytest.mark.parametrize(
    ("dark", "phone"), [(False, False), (True, False), (False, True)], ids=["light", "dark", "phone"]
)
def test_from_a_failure_to_the_message(failures: ThreadServer, visitors: Visitors, dark: bool, phone: bool) -> None:
    look = "phone" if phone else "dark" if dark else "light"
    visitor = visitors(failures.url, dark=dark, phone=phone)
    page = visitor.page

    def look_at(name: str) -> None:
        visitor.picture(f"{name}-{look}")
        assert visitor.violations() == []
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert "owned" not in page.title()

    visitor.go()
    page.get_by_role("link", name="Ledger").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    expect(page.locator("tbody tr").first).to_contain_text("processed")
    look_at("ledger")
    page.get_by_role("link", name="Failures, grouped").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("td").first).to_have_text("3")
    expect(page.locator("#looked")).to_contain_text("Looked at 5 rows; 4 match")
    look_at("failures")
    message = rows.first.locator("a").first.inner_text()
    rows.first.get_by_role("link", name="body").click()
    expect(page.locator("#body")).to_contain_text(HOSTILE)
    look_at("ledger-row")
    page.go_back()
    rows.first.get_by_role("link", name="Look at them").click()
    expect(page.get_by_role("heading", name="Messages of orders-dead")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
    visitor.go("/console/ledger")
    page.get_by_label("What became of a message?").fill(message)
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_label("Where it is now")).to_contain_text("It is in orders-dead now")
    look_at("what-became-of-it")
    page.get_by_label("Where it is now").get_by_role("link", name="orders-dead").click()
    expect(page).to_have_url(f"{failures.url}/console/queues/orders-dead/messages/{message}")


def test_the_log_of_actions_is_alive(failures: ThreadServer, visitors: Visitors) -> None:
    visitor = visitors(failures.url)
    visitor.go("/console/actions?what=queue.purge")
    expect(visitor.page.get_by_text("Nothing like that was done")).to_be_visible()
    with failures.talk() as talk:
        talk("POST", "/v1/queues/orders-dead/purge", {})
    row = visitor.page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("queue.purge")
    expect(row.locator("td.figure")).to_have_text("4")
    visitor.page.get_by_role("link", name="Clear").click()
    expect(row).to_have_count(4)
    visitor.picture("actions")
    assert visitor.violations() == []
    visitor.page.get_by_role("row").filter(has_text="queue.purge").get_by_role("link", name="orders-dead").click()
    expect(row).to_have_count(2)
    # A wrong filter is told beside its field, and is not asked for again and again.
    visitor.expected.add("422")
    visitor.page.get_by_label("From").fill("soon")
    visitor.page.get_by_role("button", name="Filter").click()
    expect(visitor.page.get_by_role("alert").get_by_text("write it like 2h")).to_be_visible()
    visitor.picture("actions-wrong-filter")
    assert visitor.violations() == []
