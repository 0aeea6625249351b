"""Which requests may come from a web page of another origin, by their headers alone."""

from __future__ import annotations

import pytest

from penstock.edge.http import Request
from penstock.errors import InvalidSetting
from penstock.faces.guard import FOREIGN_PAGE, UNTOLD_PAGE, Origins
from penstock.hosts import HostNames, needs_no_dns, split
from penstock.server.config import Config, check

HOST = "127.0.0.1:8080"
BROWSER = {"user-agent": "Mozilla/5.0 (X11)", "accept-language": "en"}


def refusal(
    method: str = "POST",
    *,
    page: bool = False,
    reads: bool = False,
    names: str = "",
    local: bool = True,
    **headers: str,
) -> object:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in ({"host": HOST} | headers).items()}
    origins = Origins(HostNames(names), local=local)
    request = Request(method, "/x", headers=named)
    said = origins.refusal(request, page=page, reads=reads)
    assert origins.refusal(request, page=page, reads=reads) == said, "what is remembered must not change the verdict"
    return said


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user_agent": "curl/8"},
        {"user_agent": "Mozilla/5.0 (Windows NT; en-US) WindowsPowerShell/5.1"},
        {"user_agent": "node", "accept_language": "*", "sec_fetch_mode": "cors"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "https://127.0.0.1:8080"},
        {"origin": "HTTP://127.0.0.1:8080", "sec_fetch_site": "same-origin"},
        {"host": "Queue.Example", "origin": "https://queue.example", "names": "queue.example"},
        # A proxy that puts its own address into Host.
        {"origin": "https://queue.example", "names": "queue.example"},
        {"origin": "http://localhost:5173", "names": "localhost:5173"},
        {**BROWSER, "referer": "http://127.0.0.1:8080/docs"},
    ],
)
@pytest.mark.parametrize("reads", [True, False])
def test_programs_and_own_pages_pass(headers: dict[str, str], reads: bool) -> None:
    assert refusal(reads=reads, **{name.replace("-", "_"): value for name, value in headers.items()}) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "Same-Origin, cross-site"},
        {"sec_fetch_site": ""},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://127.0.0.1:8081"},
        {"origin": "http://localhost:8080"},
        {"origin": "file://127.0.0.1:8080"},
        {"origin": "127.0.0.1:8080"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"origin": "http://127.0.0.1:8080", "sec_fetch_site": "cross-site"},
        {"origin": "https://queue.example:99", "names": "queue.example"},
        {"origin": "https://a.example", "names": "*.example"},
        {**BROWSER, "referer": "http://evil.example/"},
        {**BROWSER, "referer": "http://127.0.0.1:8080.evil.example/"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("reads", [True, False])
def test_foreign_pages_are_refused(headers: dict[str, str], method: str, reads: bool) -> None:
    headers = {name.replace("-", "_"): value for name, value in headers.items()}
    assert refusal(method, reads=reads, **headers) == FOREIGN_PAGE


def test_a_browser_that_says_nothing_may_read_and_not_change() -> None:
    """By plain http to another machine it says only what it cannot help; the answer is kept from foreign pages."""
    browser = {name.replace("-", "_"): value for name, value in BROWSER.items()}
    assert refusal("GET", reads=True, **browser) is None
    assert refusal("GET", reads=False, **browser) == UNTOLD_PAGE


class TestPages:
    """A link from elsewhere may lead to a page."""

    LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}

    def test_a_link_leads_to_a_page_and_to_nothing_else(self) -> None:
        assert refusal("GET", page=True, reads=True, **self.LINK) is None
        assert refusal("HEAD", page=True, reads=True, **self.LINK) is None
        assert refusal("GET", reads=True, **self.LINK) == FOREIGN_PAGE
        assert refusal("GET", reads=False, **self.LINK) == FOREIGN_PAGE

    @pytest.mark.parametrize(
        "change",
        [
            {"sec_fetch_dest": "iframe"},
            {"sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
            {"sec_fetch_mode": "cors", "sec_fetch_dest": "empty"},
            {"origin": "http://evil.example"},
        ],
    )
    def test_only_in_a_window_of_its_own(self, change: dict[str, str]) -> None:
        assert refusal("GET", page=True, reads=True, **self.LINK | change) == FOREIGN_PAGE

    def test_nothing_is_posted_to_a_page(self) -> None:
        assert refusal("POST", page=True, **self.LINK) == FOREIGN_PAGE

    def test_by_plain_http_from_another_machine(self) -> None:
        browser = {name.replace("-", "_"): value for name, value in BROWSER.items()}
        assert refusal("GET", page=True, reads=True, referer="http://wiki.example/", **browser) is None
        assert refusal("POST", page=True, referer="http://wiki.example/", **browser) == FOREIGN_PAGE

    def test_the_name_must_be_right_there_too(self) -> None:
        assert "evil.example" in str(refusal("GET", page=True, reads=True, host="evil.example", **self.LINK))


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8080", "LOCALHOST", "localhost.", "app.localhost:1", ""),
        *("127.0.0.1", "127.8.9.1:80", "127.1", "[::1]", "[::1]:8080", "[::ffff:127.0.0.1]:1"),
    ],
)
@pytest.mark.parametrize("local", [True, False])
def test_loopback_addresses_and_names_of_this_machine_are_good(host: str, local: bool) -> None:
    assert refusal(host=host, local=local) is None


@pytest.mark.parametrize("host", ["192.168.1.5:8080", "10.0.0.1", "[2001:db8::1]:8080", "0.0.0.0:8080"])
def test_other_addresses_are_good_where_others_may_reach_the_server(host: str) -> None:
    """DNS rebinding needs a name: a page that came by an address is this server's own."""
    assert refusal(host=host, local=False) is None
    assert refusal(host=host, local=True) is not None
    assert refusal(host=host, local=True, names=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost"),
        *(
            "evil.example@127.0.0.1",
            "127.0.0.1:80:80",
            "127.0.0.1:x",
            "[::1",
            "[::1]x",
            "::1",
            "[evil]",
            "*",
            "é",
            "a b",
        ),
    ],
)
def test_other_names_are_not(host: str) -> None:
    said = refusal("GET", reads=True, host=host)
    assert isinstance(said, str)
    assert said.endswith("allowed_hosts")


def test_a_request_without_a_host_is_not_from_a_browser() -> None:
    assert Origins().refusal(Request("POST", "/x", headers={}), page=False, reads=False) is None


@pytest.mark.parametrize(
    ("names", "host", "good"),
    [
        ("queue.example", "queue.example", True),
        ("queue.example", "QUEUE.example.:8080", True),
        ("queue.example", "a.queue.example", False),
        ("queue.example:8443", "queue.example:8443", True),
        ("queue.example:8443", "queue.example", False),
        ("*.example", "a.b.example:1", True),
        ("*.example", "example", False),
        ("a, B ,", "b", True),
        ("my_app", "my_app:8080", True),
        ("*", "anything", True),
        ("", "anything", False),
    ],
)
def test_names_that_the_settings_allow(names: str, host: str, good: bool) -> None:
    assert (refusal(host=host, names=names) is None) is good


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    origins = Origins()
    for number in range(10_000):
        headers = {b"host": f"127.0.0.1:{number}".encode()}
        assert origins.refusal(Request("GET", "/", headers=headers), page=False, reads=True) is None
    assert len(origins._judged) < 1_000


@pytest.mark.parametrize("names", ["http://queue.example", "queue.example/", "a b", "a:b", "ok,[::x", "queue:"])
def test_what_cannot_be_a_name_is_refused_at_the_start(names: str) -> None:
    with pytest.raises(InvalidSetting, match="allowed_hosts names"):
        check(Config(allowed_hosts=names))


def test_names_and_ports() -> None:
    assert split("A.b:1") == ("a.b", "1")
    assert split("[::1]") == ("[::1]", "")
    assert split("a:") is None
    assert needs_no_dns("127.1")
    assert not needs_no_dns("1.example")
