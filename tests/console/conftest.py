"""The console in a real browser: Debian's Chromium, driven by Playwright.

A page fails its test by any error in the browser's console, any script that throws and anything that the content
security policy had to stop. Pictures of pages go to `build/screenshots`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tests.chromium import PROGRAM
from tests.keys.conftest import KeyStore
from tests.lacking import not_installed
from tests.servers import ThreadServer

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
# On a busy machine a browser takes its time; nothing here depends on how much.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


class Visitor:
    """Somebody at the console: a page of their own, with cookies of their own."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.url = url
        self.complaints: list[str] = []
        # Words of complaints that the test means to cause, such as "401" or "ERR_CONNECTION_REFUSED".
        self.expected: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"a script failed: {error}"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def unexpected(self) -> list[str]:
        return [one for one in self.complaints if not any(word in one for word in self.expected)]

    def go(self, path: str = "/console") -> None:
        self.page.goto(self.url + path)

    def sign_in(self, secret: str) -> None:
        self.go("/console/sign-in")
        self.page.get_by_label("API key").fill(secret)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def picture(self, name: str) -> None:
        """Of the whole page, for people to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)

    def violations(self) -> list[str]:
        """What axe finds that would keep somebody from using the page."""
        found = Axe().run(self.page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}" for one in serious]


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    if PROGRAM is None:
        not_installed("chromium")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    opened = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS, timeout=PATIENCE_MS)
    yield opened
    opened.close()


class Visitors:
    """Any number of people at once."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._all: list[Visitor] = []

    def __call__(self, url: str, *, dark: bool = False, phone: bool = False, **more: object) -> Visitor:
        context = self._browser.new_context(
            viewport=PHONE if phone else WIDE,
            color_scheme="dark" if dark else "light",
            is_mobile=phone,
            has_touch=phone,
            reduced_motion="reduce",
            **more,
        )
        self._contexts.append(context)
        visitor = Visitor(context, url)
        self._all.append(visitor)
        return visitor

    def close(self) -> list[str]:
        unexpected = [one for visitor in self._all for one in visitor.unexpected()]
        for context in self._contexts:
            context.close()
        return unexpected


@pytest.fixture
def visitors(browser: Browser) -> Iterator[Visitors]:
    made = Visitors(browser)
    yield made
    unexpected = made.close()
    assert not unexpected, "\n".join(unexpected)


@pytest.fixture
def visitor(visitors: Visitors, server: ThreadServer) -> Visitor:
    """Somebody at that server, whom no one asks for a key."""
    return visitors(server.url)


@contextmanager
def server_with_keys(folder: Path, **rules: tuple[str, ...]) -> Iterator[tuple[ThreadServer, dict[str, str]]]:
    """A server whose store has these keys, and their secrets by their names."""
    store = KeyStore(folder)
    store.path.parent.mkdir(parents=True, exist_ok=True)
    secrets = {name: store.create(name, *allowed) for name, allowed in rules.items()}
    running = ThreadServer(store.url)
    try:
        yield running, secrets
    finally:
        running.stop()
