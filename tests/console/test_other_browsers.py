"""What a person does first, in Firefox and in WebKit: sign in, look, send, purge; and the page of the APIs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browsers import Firefox, WebKit
from tests.console.conftest import SCREENSHOTS
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer
from tests.waiting import wait_until

Browser = Firefox | WebKit


@pytest.fixture(params=[Firefox, WebKit], ids=lambda kind: kind.name)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    home = tmp_path / "home"
    home.mkdir()
    opened = request.param(home)
    yield opened
    opened.close()


def text_of(browser: Browser) -> str:
    found: str = browser.run("return document.body ? document.body.innerText : ''")
    return found


def shows(browser: Browser, text: str) -> None:
    wait_until(lambda: text in text_of(browser))


def picture(browser: Browser, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / f"{browser.name}-{name}.png").write_bytes(browser.picture())


def test_a_first_visit(other: Browser, tmp_path: Path) -> None:
    secret = KeyStore(tmp_path).create("boss", "queue|*|*")
    server = ThreadServer(KeyStore(tmp_path).url)
    try:
        with server.talk() as talk:
            headers = {"authorization": f"Bearer {secret}"}
            talk("PUT", "/v1/queues/orders", **headers)
            talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "one"}]}, **headers)
        visit(other, server.url, secret)
    finally:
        server.stop()


def visit(other: Browser, url: str, secret: str) -> None:
    other.go(f"{url}/console")
    assert other.run("return location.pathname") == "/console/sign-in"
    other.write("[name=key]", secret)
    other.click("main button[type=submit]")
    shows(other, "orders")
    wait_until(lambda: urlsplit(other.run("return location.href")).path == "/console")
    other.go(f"{url}/console")
    assert other.run("return typeof htmx") == "object", "scripts are allowed"
    assert other.run("return getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
    assert other.complaints(url) == []
    picture(other, "overview")

    other.go(f"{url}/console/queues/orders/send")
    other.write("textarea[name=body]", "two")
    other.click("main form button.primary[type=submit]")
    shows(other, "two")

    other.go(f"{url}/console/queues/orders/purge")
    assert other.run("return document.querySelector('form[data-confirm] button[type=submit]').disabled")
    other.write("[name=confirm]", "orders")
    assert not other.run("return document.querySelector('form[data-confirm] button[type=submit]').disabled")
    assert other.complaints(url) == []
    other.click("form[data-confirm] button[type=submit]")
    shows(other, "2 messages of orders purged.")

    other.go(f"{url}/console/keys")
    other.click("[data-dialog=change-1]")
    assert other.run("return document.getElementById('change-1').open")
    picture(other, "keys")
    assert other.complaints(url) == []

    other.go(f"{url}/docs")
    shows(other, "Penstock")
    wait_until(lambda: "/v1/keys/{name}/rotate" in other.run("return document.body.textContent"))
    assert other.complaints(url) == []
