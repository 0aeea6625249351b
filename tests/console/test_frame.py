"""The frame of the console in a browser: for everybody, with a key and without one, and when the server is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Visitors, server_with_keys
from tests.servers import ServerProcess, ThreadServer

HOSTILE = "<script>document.title='owned'</script>"


@pytest.fixture
def queues(server: ThreadServer) -> ThreadServer:
    with server.talk() as talk:
        for name in ("orders", "orders-dead", "payments", "mail.welcome", "a-rather-long-name-of-a-queue-that-goes-on"):
            assert talk("PUT", f"/v1/queues/{name}", {}).status == 201
        for number in range(5):
            talk("POST", "/messages/orders", f"message {number}")
    return server


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_for_everybody(queues: ThreadServer, visitors: Visitors, dark: bool, phone: bool) -> None:
    visitor = visitors(queues.url, dark=dark, phone=phone)
    look = f"{'phone' if phone else 'wide'}-{'dark' if dark else 'light'}"
    visitor.go()
    expect(visitor.page.get_by_role("rowheader", name="orders", exact=True)).to_be_visible()
    expect(visitor.page.locator("#health")).to_contain_text("Healthy")
    visitor.picture(f"queues-{look}")
    assert visitor.violations() == []
    visitor.go("/console/keys?key=nobody&action=post&queue=orders")
    visitor.picture(f"keys-without-any-{look}")
    assert visitor.violations() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert visitor.page.evaluate(overflow) <= 0
    visitor.expected.add("404")
    visitor.go("/console/nothing")
    expect(visitor.page.get_by_role("heading", name="Not found")).to_be_visible()
    visitor.picture(f"not-found-{look}")
    assert visitor.violations() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_key_is_made_used_and_revoked(tmp_path: Path, visitors: Visitors, dark: bool) -> None:
    look = "dark" if dark else "light"
    with server_with_keys(tmp_path, boss=("queue|*|*",)) as (server, secrets):
        boss = visitors(server.url, dark=dark)
        boss.go()
        expect(boss.page).to_have_url(server.url + "/console/sign-in")
        boss.picture(f"sign-in-{look}")
        assert boss.violations() == []
        boss.expected |= {"422"}
        boss.page.get_by_label("API key").fill("psk_wrong")
        boss.page.get_by_role("button", name="Sign in").click()
        expect(boss.page.get_by_role("alert").get_by_text("this API key is not known")).to_be_visible()
        assert boss.violations() == []
        boss.sign_in(secrets["boss"])
        boss.page.get_by_role("link", name="Keys").click()
        boss.page.get_by_label("Name").fill("reader")
        boss.page.get_by_label("Rules").fill("queue|get_status|*")
        boss.page.get_by_role("button", name="Make the key").click()
        secret = boss.page.locator("#secret").inner_text()
        boss.picture(f"key-made-{look}")
        assert boss.violations() == []
        reader = visitors(server.url)
        reader.sign_in(secret)
        expect(reader.page.get_by_role("link", name="Keys")).to_have_count(0)
        boss.go("/console/keys")
        row = boss.page.get_by_role("row").filter(has_text="reader")
        row.get_by_role("button", name="Revoke").click()
        dialog = boss.page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Revoke")).to_be_disabled()
        boss.picture(f"revoke-{look}")
        assert boss.violations() == []
        dialog.get_by_label("To go on, type").fill("reader")
        dialog.get_by_role("button", name="Revoke").click()
        expect(boss.page.get_by_text("The key reader is revoked")).to_be_visible()
        boss.picture(f"keys-{look}")
        # The page of the other one notices by itself.
        reader.expected |= {"401"}
        expect(reader.page.get_by_text("was revoked")).to_be_visible()
        boss.page.get_by_role("button", name="Sign out").click()
        expect(boss.page.get_by_text("You are signed out")).to_be_visible()


def test_the_keyboard_is_enough(queues: ThreadServer, visitors: Visitors) -> None:
    visitor = visitors(queues.url)
    visitor.go()
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    visitor.page.keyboard.press("/")
    expect(visitor.page.get_by_role("searchbox")).to_be_focused()
    visitor.page.keyboard.type("pay")
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("rowheader")).to_have_text(["payments"])
    # Rows are there before the scripts are, which begin to listen when the page is whole.
    visitor.page.wait_for_load_state()
    # The second of two keys has to follow soon, by a clock that a busy machine would run out.
    visitor.page.evaluate("(now => { Date.now = () => now; })(Date.now())")
    visitor.page.keyboard.press("g")
    visitor.page.keyboard.press("k")
    expect(visitor.page.get_by_role("heading", name="API keys")).to_be_visible()
    visitor.page.wait_for_load_state()
    visitor.page.keyboard.press("?")
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_a_live_page_survives_a_restart(tmp_path: Path, visitors: Visitors) -> None:
    first = ServerProcess(tmp_path)
    visitor = visitors(first.url)
    try:
        with first.talk() as talk:
            talk("PUT", "/v1/queues/before", {})
        visitor.go()
        expect(visitor.page.get_by_role("rowheader")).to_have_text(["before"])
        visitor.expected |= {"net::ERR_", "htmx:"}
        first.kill()
        expect(visitor.page.locator("#lost")).to_be_visible()
        visitor.picture("connection-lost")
        with first.kept_port() as port:
            second = ServerProcess(tmp_path, port=port)
    finally:
        first.stop()
    try:
        with second.talk() as talk:
            talk("PUT", "/v1/queues/meanwhile", {})
        expect(visitor.page.get_by_role("rowheader")).to_have_text(["before", "meanwhile"])
        expect(visitor.page.locator("#lost")).to_be_hidden()
    finally:
        second.stop()
