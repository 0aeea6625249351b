"""The page to browse: whole in itself, and whatever the document says is shown as text."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.openapi.conftest import ROUTES
from tests.servers import ThreadServer
from tests.talk import Talk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


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


@pytest.fixture
def browsed(server: ThreadServer, tmp_path: Path) -> Callable[[str], str]:
    """What Chromium has made of the page, as HTML."""
    if CHROMIUM is None:
        pytest.skip("no Chromium")

    def browse(fragment: str) -> str:
        home = f"--user-data-dir={tmp_path / 'chromium'}"
        command = [CHROMIUM, "--headless", *QUIET, home, "--virtual-time-budget=10000", "--dump-dom"]
        ended = subprocess.run([*command, f"{server.url}/docs{fragment}"], capture_output=True, text=True, check=True)
        return ended.stdout

    return browse


def test_every_operation_is_shown(browsed: Callable[[str], str]) -> None:
    dom = browsed("#send")
    assert len(re.findall(r'<details class="operation"', dom)) == sum(map(len, ROUTES.values()))
    # The one that was asked for is open, with its curl command, its parameters and its answers.
    opened = dom.partition('id="send"')[2].partition('<details class="operation"')[0]
    for shown in ("curl -X POST http://127.0.0.1:", "Idempotency-Key", "body_base64", "409"):
        assert shown in opened
    assert "[object" not in dom
