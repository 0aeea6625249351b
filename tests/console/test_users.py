"""Several people at the console at once: what each may see and do, and what happens when a key comes or goes."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.console.conftest import Visitors, server_with_keys
from tests.servers import ThreadServer

# A form that the page does not have, with the right token.
FORGE = """path => fetch(path, {
    method: "POST",
    headers: {"X-CSRF-Token": document.querySelector("meta[name=csrf-token]").content},
    body: new URLSearchParams({confirm: "orders"}),
}).then(answer => answer.status)"""


def test_two_users_at_once_see_what_each_may_see(tmp_path: Path, visitors: Visitors) -> None:
    keys = {"boss": ("queue|*|*",), "reader": ("queue|get_status|orders*",)}
    with server_with_keys(tmp_path, **keys) as (server, secrets):
        bearer = {"authorization": f"Bearer {secrets['boss']}"}
        with server.talk() as talk:
            for name in ("orders", "payroll"):
                assert talk("PUT", f"/v1/queues/{name}", {}, **bearer).status == 201
            boss, reader = visitors(server.url), visitors(server.url)
            boss.sign_in(secrets["boss"])
            reader.sign_in(secrets["reader"])
            for visitor, queues, places in (
                (boss, ["orders", "payroll"], {"Queues", "Ledger", "Actions", "Keys"}),
                (reader, ["orders"], {"Queues"}),
            ):
                visitor.go("/console?sort=name")
                expect(visitor.page.locator("tbody th")).to_have_text(queues)
                shown = set(
                    visitor.page.get_by_role("navigation", name="Console").get_by_role("link").all_inner_texts()
                )
                assert shown & {"Queues", "Ledger", "Actions", "Keys"} == places
            boss.picture("two-users-boss")
            reader.picture("two-users-reader")
            expect(boss.page.get_by_role("link", name="New queue")).to_be_visible()
            expect(reader.page.get_by_role("link", name="New queue")).to_have_count(0)
            # Both pages are alive, each within its own rights.
            for name in ("orders-new", "payroll-new"):
                talk("PUT", f"/v1/queues/{name}", {}, **bearer)
            everything = ["orders", "orders-new", "payroll", "payroll-new"]
            expect(boss.page.locator("tbody th")).to_have_text(everything)
            expect(reader.page.locator("tbody th")).to_have_text(["orders", "orders-new"])
        # On the page of one queue, what one of them does is seen by the other, who is offered nothing of it.
        for visitor in (boss, reader):
            visitor.go("/console/queues/orders")
        forms = reader.page.locator("form[method=post]")
        expect(forms).to_have_count(1)
        expect(forms).to_have_attribute("action", "/console/sign-out")
        for name in ("Purge …", "Delete the queue …"):
            expect(boss.page.get_by_role("link", name=name)).to_be_visible()
            expect(reader.page.get_by_role("link", name=name)).to_have_count(0)
        boss.page.get_by_role("button", name="Pause").click()
        expect(boss.page.get_by_role("button", name="Resume")).to_be_visible()
        expect(reader.page.locator("#main").get_by_text("paused").first).to_be_visible()
        reader.picture("paused-by-another")
        reader.expected.add("403")
        for deed in ("resume", "pause", "release", "purge", "delete"):
            assert reader.page.evaluate(FORGE, f"/console/queues/orders/{deed}") == 403, deed
        expect(boss.page.get_by_role("button", name="Resume")).to_be_visible()
        # What is not offered is refused as well, and does not end the session.
        for path in ("/console/keys", "/console/actions", "/console/ledger", "/console/ledger/failures"):
            reader.go(path)
            expect(reader.page.get_by_role("heading", name="Not permitted")).to_be_visible()
        reader.picture("not-permitted")
        assert reader.violations() == []
        reader.go("/console?sort=name")
        expect(reader.page.locator("tbody th")).to_have_text(["orders", "orders-new"])


def test_a_key_is_revoked_while_its_page_is_live(tmp_path: Path, visitors: Visitors) -> None:
    keys = {"boss": ("queue|*|*",), "reader": ("queue|get_status|*",), "next": ("queue|get_status|*",)}
    with server_with_keys(tmp_path, **keys) as (server, secrets):
        with server.talk() as talk:
            talk("PUT", "/v1/queues/orders", {}, authorization=f"Bearer {secrets['boss']}")
        boss, reader = visitors(server.url), visitors(server.url)
        boss.sign_in(secrets["boss"])
        reader.sign_in(secrets["reader"])
        reader.go("/console?filter=ord")
        expect(reader.page.locator("tbody th")).to_have_text(["orders"])
        boss.go("/console/keys")
        boss.page.get_by_role("row").filter(has_text="reader").get_by_role("button", name="Revoke").click()
        dialog = boss.page.get_by_role("dialog")
        dialog.get_by_label("To go on, type").fill("reader")
        reader.expected.add("401")
        dialog.get_by_role("button", name="Revoke").click()
        expect(boss.page.get_by_text("The key reader is revoked")).to_be_visible()
        # The page of the other one notices by itself.
        expect(reader.page.get_by_text("was revoked")).to_be_visible()
        reader.picture("revoked-in-the-middle")
        assert reader.violations() == []
        reader.expected.add("422")
        reader.page.get_by_label("API key").fill(secrets["reader"])
        reader.page.get_by_role("button", name="Sign in").click()
        expect(reader.page.get_by_role("alert").get_by_text("this API key is not known")).to_be_visible()
        # With another key they go on where they were.
        reader.page.get_by_label("API key").fill(secrets["next"])
        reader.page.get_by_role("button", name="Sign in").click()
        expect(reader.page).to_have_url(f"{server.url}/console?filter=ord")
        expect(reader.page.locator("tbody th")).to_have_text(["orders"])
        boss.go("/console/actions")
        expect(boss.page.get_by_role("row").filter(has_text="key.revoke")).to_contain_text("boss console")


def test_the_first_key_locks_no_one_out_who_makes_it(server: ThreadServer, visitors: Visitors) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders", {})
    maker, other = visitors(server.url), visitors(server.url)
    other.go()
    expect(other.page.locator("tbody th")).to_have_text(["orders"])
    maker.go("/console/keys")
    expect(maker.page.get_by_text("This server asks for no key yet")).to_be_visible()
    maker.page.get_by_label("Name").fill("boss")
    # Rules are put together by clicks, and what was typed before stays.
    maker.page.get_by_label("May do").select_option("get_status")
    maker.page.get_by_label("On queues").fill("orders-*")
    maker.page.get_by_role("button", name="Add the rule").click()
    expect(maker.page.get_by_label("Rules, one to a line")).to_have_value("queue|*|*\nqueue|get_status|orders-*")
    expect(maker.page.get_by_label("Name")).to_have_value("boss")
    maker.picture("first-key-rules")
    assert maker.violations() == []
    other.expected.add("401")
    maker.page.get_by_role("button", name="Make the key").click()
    secret = maker.page.locator("#secret").inner_text()
    expect(maker.page.get_by_text("You are signed in with it now")).to_be_visible()
    expect(maker.page.get_by_role("button", name="Sign out")).to_be_visible()
    maker.picture("first-key-made")
    assert maker.violations() == []
    # The others are asked for a key, by the page that they have open.
    expect(other.page.get_by_label("API key")).to_be_visible()
    # The maker goes on, makes another, signs out, and comes in again with the secret.
    maker.page.get_by_role("link", name="Done").click()
    row = maker.page.get_by_role("row").filter(has_text="boss")
    expect(row).to_contain_text("in force")
    maker.page.get_by_label("Name").fill("second")
    maker.page.get_by_label("Rules, one to a line").fill("queue|post|*")
    maker.page.get_by_role("button", name="Make the key").click()
    expect(maker.page.get_by_role("heading", name="second is made")).to_be_visible()
    maker.go("/console/keys?key=second&action=post&queue=orders")
    expect(maker.page.locator("#verdict")).to_contain_text("permitted by queue|post|*")
    maker.picture("may-this-key-do-that")
    maker.page.get_by_role("button", name="Sign out").click()
    maker.sign_in(secret)
    maker.go("/console/actions")
    kinds = maker.page.locator("tbody tr td:nth-child(4)")
    expect(kinds).to_have_text(
        ["console.sign-in", "console.sign-out", "key.create", "console.sign-in", "key.create", "queue.create"]
    )
    ways = maker.page.locator("tbody tr td:nth-child(3)")
    expect(ways).to_have_text([*["console"] * 5, "native"])
