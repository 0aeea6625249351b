"""Messages and tasks of the console in a browser: looked at, acted on, sent; and nothing in them ever acts."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Visitor, Visitors
from tests.servers import ThreadServer

MESSAGES = "/console/queues/orders/messages"
HOSTILE = {
    "script": b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "long": b"<b>x</b>" * (128 * 1024),
    "binary": bytes(range(256)) * 16,
    "turned": "abc\u202egnp.exe".encode(),
    "nul": b"a\x00b",
    "no-utf-8": b"\xff\xfe\xfd",
    "deep": b"[" * 64 + b"1" + b"]" * 64,
}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def orders(server: ThreadServer) -> ThreadServer:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders-dead", {})
        redrive = {"max_receives": 1, "dead_letter_queue": "orders-dead"}
        talk("PUT", "/v1/queues/orders", {"redrive": redrive})
        messages = [
            {
                "body": json.dumps({"order": number, "customer": f"c-{number % 3}", "note": "ring twice"}),
                "content_type": "application/json",
                "attributes": {"kind": "order"},
                "group": f"c-{number % 3}",
            }
            for number in range(60)
        ]
        assert talk("POST", "/v1/queues/orders/messages", {"messages": messages}).status == 201
    return server


def send_bytes(server: ThreadServer, body: bytes, queue: str = "orders") -> str:
    with server.talk() as talk:
        message = {"body_base64": base64.b64encode(body).decode(), "attributes": {"<b>name</b>": "\u202evalue"}}
        return talk("POST", f"/v1/queues/{queue}/messages", {"messages": [message]}).json["sent"][0]["id"]


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_for_everybody(orders: ThreadServer, visitors: Visitors, dark: bool, phone: bool) -> None:
    visitor = visitors(orders.url, dark=dark, phone=phone)
    look = f"{'phone' if phone else 'wide'}-{'dark' if dark else 'light'}"
    with orders.talk() as talk:
        first = talk("GET", "/v1/queues/orders/messages?limit=1").json["messages"][0]["id"]
    pages = {
        "messages": f"{MESSAGES}?path=%24.customer&value=c-1",
        "message": f"{MESSAGES}/{first}",
        "message-edit": f"{MESSAGES}/{first}/edit",
        "act-on-all": f"{MESSAGES}/all?text=ring",
        "send": "/console/queues/orders/send",
        "send-lines": "/console/queues/orders/send?way=lines",
        "send-file": "/console/queues/orders/send?way=file",
        "tasks-none": "/console/tasks",
    }
    for name, path in pages.items():
        visitor.go(path)
        expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
        visitor.picture(f"{name}-{look}")
        assert visitor.violations() == [], name
        assert visitor.page.evaluate(OVERFLOW) <= 0, name


def test_hostile_bodies_are_shown_and_never_run(orders: ThreadServer, visitor: Visitor) -> None:
    for name, body in HOSTILE.items():
        sent = send_bytes(orders, body)
        for form in ("", "json", "text", "hex"):
            visitor.go(f"{MESSAGES}/{sent}?as={form}")
            expect(visitor.page).to_have_title("A message of orders · Penstock")
            expect(visitor.page.locator("#body")).to_be_visible()
            assert visitor.page.locator("#body *:not(bdi)").count() == 0
        visitor.picture(f"hostile-{name}")
        assert visitor.violations() == []
        assert visitor.page.evaluate(OVERFLOW) <= 0
        with visitor.page.expect_download() as download:
            visitor.page.get_by_role("link", name="Download", exact=True).click()
        assert Path(download.value.path()).read_bytes() == body
    visitor.go(MESSAGES)
    visitor.page.get_by_role("link", name="Next").first.click()
    expect(visitor.page.get_by_text("<script>document.title='owned'</script>")).to_be_visible()
    expect(visitor.page).to_have_title("Messages of orders · Penstock")
    visitor.picture("hostile-table")
    assert visitor.violations() == []


def test_chosen_messages_are_moved_and_deleted(orders: ThreadServer, visitor: Visitor) -> None:
    visitor.go(f"{MESSAGES}?path=%24.order&value=7")
    expect(visitor.page.locator("#looked")).to_contain_text("Looked at 60 of 60; 1 matches.")
    visitor.page.get_by_label("All on this page").check()
    expect(visitor.page.get_by_role("checkbox", name="Choose").first).to_be_checked()
    visitor.page.get_by_role("button", name="Move").click()
    visitor.page.get_by_label("Queue", exact=True).fill("orders-dead")
    visitor.picture("move")
    assert visitor.violations() == []
    visitor.page.get_by_role("button", name="Move").click()
    expect(visitor.page.get_by_text("Moved 1 message.")).to_be_visible()
    expect(visitor.page.get_by_text("No message matches.")).to_be_visible()
    visitor.go(MESSAGES)
    for box in visitor.page.get_by_role("checkbox", name="Choose").all()[:2]:
        box.check()
    visitor.page.get_by_role("button", name="Delete").click()
    expect(visitor.page.get_by_role("heading", name="Delete these 2 messages?")).to_be_visible()
    visitor.picture("delete")
    visitor.page.get_by_role("button", name="Delete").click()
    expect(visitor.page.get_by_text("Deleted 2 messages.")).to_be_visible()


def test_all_that_match_are_counted_confirmed_and_dealt_with(orders: ThreadServer, visitor: Visitor) -> None:
    visitor.go(f"{MESSAGES}?path=%24.customer&value=c-1")
    visitor.page.get_by_role("link", name="Act on all that match").click()
    visitor.page.get_by_label("Delete them").check()
    visitor.page.get_by_role("button", name="Count them first").click()
    # The page counts live, and asks by itself when it is done.
    expect(visitor.page.get_by_role("heading", name="Delete these 20 messages?")).to_be_visible()
    visitor.picture("task-counted")
    assert visitor.violations() == []
    visitor.page.get_by_label("At most").fill("15")
    visitor.page.get_by_label("To go on, type orders").fill("orders")
    visitor.page.get_by_role("button", name="Delete").click()
    expect(visitor.page.locator("#task").get_by_text("complete")).to_be_visible()
    expect(visitor.page.locator("#done")).to_have_text("15")
    visitor.picture("task-done")
    assert visitor.violations() == []
    visitor.page.get_by_role("link", name="Tasks").first.click()
    expect(visitor.page.get_by_role("progressbar")).to_have_count(2)
    visitor.picture("tasks")
    assert visitor.violations() == []


def test_a_task_is_watched_and_cancelled_by_another_one(orders: ThreadServer, visitors: Visitors) -> None:
    first, second = visitors(orders.url), visitors(orders.url)
    with orders.talk() as talk:
        move = {"source": "orders", "target": "orders-dead", "per_second": 1}
        task = talk("POST", "/v1/moves", move).json["id"]
    first.go(f"/console/tasks/{task}")
    expect(first.page.get_by_text("in progress")).to_be_visible()
    second.go("/console/tasks")
    second.page.get_by_role("button", name="Cancel").click()
    expect(second.page.get_by_text("The task is cancelled.")).to_be_visible()
    expect(first.page.get_by_text("cancelled", exact=True)).to_be_visible()
    expect(first.page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_dead_letter_is_edited_and_goes_back(orders: ThreadServer, visitor: Visitor) -> None:
    with orders.talk() as talk:
        for _ in range(2):
            talk("POST", "/v1/queues/orders/claim", {"hold_ms": 0})
        dead = talk("GET", "/v1/queues/orders-dead/messages").json["messages"][0]
    visitor.go("/console/queues/orders-dead/messages")
    visitor.page.get_by_role("link", name=f"…{dead['id'][-12:]}").click()
    expect(visitor.page.get_by_text("dead-lettered")).to_be_visible()
    visitor.page.get_by_role("link", name="Edit and send").click()
    visitor.expected.add("422")
    visitor.page.get_by_label("Body", exact=True).fill('{"order": }')
    visitor.page.get_by_role("button", name="Send").click()
    expect(visitor.page.get_by_role("alert").get_by_text("not JSON")).to_be_visible()
    visitor.picture("message-edit-wrong")
    assert visitor.violations() == []
    visitor.page.get_by_label("Body", exact=True).fill('{"order": "mended"}')
    visitor.page.get_by_role("button", name="Send").click()
    expect(visitor.page.get_by_text("Sent to orders as")).to_be_visible()
    expect(visitor.page.locator("#body")).to_contain_text('"order": "mended"')


def test_lines_and_files_are_sent(orders: ThreadServer, visitor: Visitor, tmp_path: Path) -> None:
    visitor.expected.add("422")
    visitor.go(MESSAGES)
    visitor.page.get_by_role("link", name="Send").click()
    visitor.page.get_by_role("link", name="Lines of JSON").click()
    visitor.page.get_by_label("Lines", exact=True).fill('{"a": 1}\n{"a": \n{"a": 3}')
    visitor.page.get_by_role("button", name="Send").click()
    expect(visitor.page.get_by_role("alert").get_by_text("line 2: this is not JSON")).to_be_visible()
    visitor.picture("send-lines-wrong")
    assert visitor.violations() == []
    visitor.page.get_by_label("Lines", exact=True).fill('{"a": 1}\n{"a": 2}\n{"a": 3}')
    visitor.page.get_by_role("button", name="Send").click()
    expect(visitor.page.get_by_text("Sent 3 messages.")).to_be_visible()
    file = tmp_path / "body.bin"
    file.write_bytes(HOSTILE["binary"])
    visitor.go("/console/queues/orders/send?way=file")
    visitor.page.get_by_label("File", exact=True).set_input_files(file)
    visitor.page.get_by_label("Each line is, or the file is").select_option("whole")
    visitor.page.get_by_role("button", name="Send").click()
    expect(visitor.page.get_by_text("Sent 1 message.")).to_be_visible()
    with orders.talk() as talk:
        messages = talk("GET", "/v1/queues/orders/messages?limit=100").json["messages"]
    assert base64.b64decode(messages[-1]["body_base64"]) == HOSTILE["binary"]
