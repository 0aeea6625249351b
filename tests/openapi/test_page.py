"""The page to browse: whole in itself, and whatever the document says is shown as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.server.front import near
from tests.chromium import Chromium, Page
from tests.openapi.conftest import ROUTES
from tests.servers import ThreadServer
from tests.talk import Talk


def test_it_is_one_answer_that_loads_nothing_from_elsewhere(talk: Talk) -> None:
    reply = talk("GET", "/docs")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    page = reply.body.decode()
    addresses = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert all(address.startswith("data:") or address == "openapi.json" for address in addresses)
    assert "@import" not in page
    assert "/* page." not in page


def test_only_its_own_script_may_run(talk: Talk) -> None:
    policy = talk("GET", "/docs").headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_it_writes_no_markup(talk: Talk) -> None:
    page = talk("GET", "/docs").body.decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in page


# The root


@pytest.mark.parametrize(
    "accept",
    ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html", "TEXT/HTML;q=0.5, */*;q=0.1"],
)
def test_people_get_the_page_at_the_root(talk: Talk, accept: str) -> None:
    reply, page = talk("GET", "/", accept=accept), talk("GET", "/docs")
    assert (reply.status, reply.body) == (200, page.body)
    assert (reply.headers["Content-Type"], reply.headers["Vary"]) == ("text/html; charset=utf-8", "Accept")
    assert talk("HEAD", "/", accept=accept).headers["Content-Length"] == str(len(page.body))


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "application/json, text/html;q=0.5", "text/html;q=0", ""]
)
def test_programs_are_told_where_to_look(talk: Talk, accept: str) -> None:
    reply = talk("GET", "/", accept=accept)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    for path in (reply.json["docs"], reply.json["openapi"]):
        assert talk("GET", path).status == 200


def test_mqcore_alone_has_no_pages(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", faces="mqcore")
    with running.talk() as talk:
        assert talk("GET", "/", accept="text/html").status == 404
        assert talk("PUT", "/favicon.ico").status == 201
    running.stop()


def test_there_is_an_icon(talk: Talk) -> None:
    reply = talk("GET", "/favicon.ico")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "image/png")
    assert reply.body.startswith(b"\x89PNG")


def test_the_log_says_where_the_pages_and_the_store_are(serve, tmp_path: Path) -> None:
    server = serve("--store", "sqlite:///data/penstock.db")
    server.terminate()
    log = server.log.read_text()
    assert f"serves {server.url} from {tmp_path}/data/penstock.db\n" in log
    assert f"{server.url}/ (the APIs, to browse and try)" in log
    assert f"{server.url}/openapi.json" in log


def test_an_address_for_every_machine_is_shown_as_one_that_opens_here(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", host="0.0.0.0", expose_without_keys=True)
    assert near(running.app.url).startswith("http://127.0.0.1:")
    running.stop()


# In a browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browse(chromium: Chromium, server: ThreadServer) -> Iterator[Callable[..., Page]]:
    page = chromium.page()

    def browse(address: str, width: int = 1280, height: int = 800) -> Page:
        page.shape(width, height, mobile=width < 600)
        page.go(server.url + address)
        page.until("document.querySelectorAll('.operation').length > 0")
        return page

    yield browse
    page.close()


def visible(page: Page, selector: str) -> list[str]:
    """The ids, or for want of them the addresses, of what can be seen."""
    found = f"[...document.querySelectorAll({selector!r})].filter((one) => one.checkVisibility())"
    return page.run(f"{found}.map((one) => one.id || one.getAttribute('href'))")


def search(page: Page, words: str) -> None:
    page.run(f"(() => {{ const s = document.getElementById('search'); s.value = '{words}'; "
             "s.dispatchEvent(new Event('input')) })()")  # fmt: skip


ALL = sum(map(len, ROUTES.values()))
# A form of the page, as somebody would fill it in and send it.
TRY = """(async () => {
  const form = document.querySelector(`#${id} .trial`);
  for (const [at, value] of Object.entries(given)) {
    const label = [...form.querySelectorAll("label")].find((one) => one.textContent.trim().split(/\\s/)[0] === at);
    label.querySelector("input, textarea, select").value = value;
  }
  form.requestSubmit();
})()"""


def try_it(page: Page, operation: str, **given: str) -> tuple[str, str]:
    """The status and the body that the page shows in the end."""
    named = json.dumps({name.replace("__", "-"): value for name, value in given.items()})
    page.run(f"{{ const id = '{operation}', given = {named}; {TRY} }}; 0")
    result = f"document.querySelector('#{operation} .result')"
    page.until(f"{result}.querySelector('.status')")
    return page.run(f"[{result}.querySelector('.status').textContent, ({result}.querySelector(':scope > pre') || "
                    "{textContent: ''}).textContent]")  # fmt: skip


@pytest.mark.parametrize("at", ["/docs", "/"])
def test_every_operation_is_shown(browse: Callable[..., Page], at: str) -> None:
    page = browse(f"{at}#send")
    assert len(visible(page, ".operation")) == len(visible(page, "#nav a")) == ALL
    # The one that was asked for is open, with its curl command, its parameters and its answers.
    opened = page.run("document.getElementById('send').innerText")
    for shown in ("curl -X POST http://127.0.0.1:", "Idempotency-Key", "body_base64", "409"):
        assert shown in opened
    assert "[object" not in page.run("document.body.innerText")


def test_a_deep_link_is_marked_and_made(browse: Callable[..., Page]) -> None:
    page = browse("/docs#claim")
    page.until("document.querySelector('#claim.current')")
    assert page.run("document.querySelector('#nav [aria-current]').getAttribute('href')") == "#claim"
    assert page.run("document.querySelector('#ack .mark').getAttribute('href')") == "#ack"
    page.run("document.querySelector('#ack > summary').click()")
    page.until("location.hash === '#ack' && document.querySelector('.operation.current').id === 'ack'")


def test_a_verb_is_found_by_its_name(browse: Callable[..., Page]) -> None:
    page = browse("/docs")
    search(page, "ack")
    assert visible(page, ".operation") == ["ack", "queueAck", "dedupQueueAck"]
    assert visible(page, "#nav a") == ["#ack", "#queueAck", "#dedupQueueAck"]
    search(page, "unclaim")
    assert "queueUnclaimAll" in visible(page, ".operation")
    search(page, "post /v1 purge")
    assert visible(page, ".operation") == ["purge"]
    search(page, "idempotency")
    assert visible(page, ".operation") == ["send"]
    search(page, "no-such-word")
    assert visible(page, ".operation") == []
    assert visible(page, "#nothing") == ["nothing"]
    search(page, "")
    assert len(visible(page, ".operation")) == ALL


def test_what_only_mentions_a_word_is_a_click_away(browse: Callable[..., Page]) -> None:
    page = browse("/docs")
    search(page, "claim")
    called = visible(page, ".operation")
    page.run("document.querySelector('#more button').click()")
    assert set(called) < set(visible(page, ".operation"))


def test_on_a_phone_the_list_is_a_touch_away_and_nothing_is_cut_off(browse: Callable[..., Page]) -> None:
    page = browse("/docs", 390, 844)
    assert visible(page, "#nav a") == []
    page.run("document.querySelector('#menu > summary').click()")
    page.until("document.querySelector('#nav a').checkVisibility()")
    assert len(visible(page, "#nav a")) == ALL
    page.run("document.querySelector('#nav a[href=\"#claim\"]').click()")
    page.until("document.getElementById('claim').open && !document.getElementById('menu').open")
    assert page.run("document.documentElement.scrollWidth") == 390


def test_a_wide_screen_is_used(browse: Callable[..., Page]) -> None:
    page = browse("/docs#claim", 1920, 1080)
    page.until("document.querySelector('#claim .trial')")
    what, side = (page.run(f"document.querySelector('#claim .{one}').getBoundingClientRect().left")
                  for one in ("what", "side"))  # fmt: skip
    assert side > what + 600
    assert page.run("document.querySelector('main').getBoundingClientRect().right") > 1850


def test_requests_can_be_tried(browse: Callable[..., Page]) -> None:
    page = browse("/docs#createQueue")
    assert try_it(page, "createQueue", queue="tried/this", body="{}")[0] == "400"
    assert try_it(page, "createQueue", queue="tried", body="{}")[0] == "201"
    page = browse("/docs#mqsSend")
    assert try_it(page, "mqsSend", queue_or_id="tried", body="größer", Content__Type="text/plain") == ["201", ""]
    page = browse("/docs#claim")
    status, body = try_it(page, "claim", queue="tried", body='{"limit": 5}')
    assert (status, [one["body"] for one in json.loads(body)["messages"]]) == ("200", ["größer"])
    page = browse("/docs#peek")
    assert json.loads(try_it(page, "peek", queue="tried", limit="3")[1])["messages"][0]["receives"] == 1
    assert try_it(page, "peek", queue="no-such-queue", limit="3")[0] == "404"


def test_a_key_goes_with_what_is_tried_and_is_kept_nowhere(browse: Callable[..., Page], talk: Talk) -> None:
    secret = talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"]}).json["secret"]
    page = browse("/docs#listQueues")
    assert try_it(page, "listQueues")[0] == "401"
    page.run(f"void (document.getElementById('key').value = '{secret}')")
    page.run("document.querySelector('#listQueues .result').replaceChildren()")
    assert try_it(page, "listQueues")[0] == "200"
    kept = page.run("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert secret not in kept
    assert browse("/").run("document.getElementById('key').value") == ""
