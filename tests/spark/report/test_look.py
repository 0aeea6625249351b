"""The page in a real browser: on a phone, on a wall, in the dark and on paper. Pictures go to `build/screenshots`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from penstock.spark.report.page import render
from penstock.spark.report.tables import Held
from tests.chromium import PROGRAM
from tests.console.conftest import FLAGS, PATIENCE_MS, PHONE, SCREENSHOTS, WIDE
from tests.lacking import not_installed
from tests.spark.report.test_page import facts

# The longest there can be, without a place to break it; and one that would like to be part of the page.
QUEUES = ("o" * 255, "<b>bold</b> & <script>document.title = 'taken over'</script>", "orders")
# What A4 leaves between the margins.
PAPER = {"width": 703, "height": 1032}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if PROGRAM is None:
        not_installed("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS, timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    held = {name: Held(3, [5] * 72, [700] * 72) for name in QUEUES}
    path.write_text(render(replace(facts(*QUEUES, stretches=72), live=held, known_to=1_791_600_000_000)))
    return path


def opened(browser: Browser, written: Path, *, dark: bool = False, phone: bool = False, paper: bool = False) -> Page:
    page = browser.new_context(
        viewport=PHONE if phone else PAPER if paper else WIDE,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        is_mobile=phone,
        has_touch=phone,
    ).new_page()
    page.set_default_timeout(PATIENCE_MS)
    if paper:
        page.emulate_media(media="print")
    page.goto(written.as_uri())
    return page


def picture(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SCREENSHOTS / f"report-{name}.png"), full_page=True)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["phone", "wall", "paper"])
def test_nothing_sticks_out_and_everything_can_be_read(browser: Browser, written: Path, kind: str, dark: bool) -> None:
    page = opened(browser, written, dark=dark, phone=kind == "phone", paper=kind == "paper")
    picture(page, f"{kind}-{'dark' if dark else 'light'}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if kind != "wall":
        wider = "[...document.querySelectorAll('.wide')].filter(it => it.scrollWidth > it.clientWidth + 1).length"
        assert page.evaluate(wider) == 0, "a table must not be wider than the page"
    smallest = "Math.min(...[...document.querySelectorAll('svg text')].map(it => it.getBoundingClientRect().height))"
    assert page.evaluate(smallest) >= 9
    assert page.title() == "Penstock: what the ledger tells"
    page.context.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_keeps_nobody_out(browser: Browser, written: Path, dark: bool) -> None:
    page = opened(browser, written, dark=dark)
    found = Axe().run(page).response["violations"]
    serious = [it for it in found if it["impact"] in ("serious", "critical")]
    assert not serious, [(it["id"], [node["html"] for node in it["nodes"]][:3]) for it in serious]
    page.context.close()


def test_paper_is_white_and_every_queue_has_its_sheet(browser: Browser, written: Path) -> None:
    page = opened(browser, written, dark=True, paper=True)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
    assert len(QUEUES) + 2 <= sheets <= 3 * len(QUEUES) + 4
    tall = "[...document.querySelectorAll('h2.queue')].map(it => it.nextElementSibling).map(it => {"
    tall += " let end = it; while (end.nextElementSibling && end.nextElementSibling.tagName !== 'H2') end ="
    tall += " end.nextElementSibling; return end.getBoundingClientRect().bottom - it.getBoundingClientRect().top })"
    assert all(height < PAPER["height"] - 40 for height in page.evaluate(tall)), "a queue fits on one sheet"
    page.context.close()
