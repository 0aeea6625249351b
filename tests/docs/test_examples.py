"""Every example of README.md and docs/ does what the page says it does."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.databases import reserve_port
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, name_of, pattern
from tests.lacking import not_installed
from tests.servers import ThreadServer
from tests.sqs_clients.environments import NEWEST, program

SHOWN_HOST = "127.0.0.1:8080"
SHOWN_URL = f"http://{SHOWN_HOST}"
# What pages start beside it. On this machine others may have these ports.
SHOWN_PORTS = ("8098", "8099")
README = ROOT / "README.md"
# What a newcomer reads first; the second sets the PATH that every other page goes by.
FIRST = (README, DOCS / "getting-started.md")
# Its programs are clients of AWS, and run in their environment.
SQS = DOCS / "sqs.md"
# It shows a history, in which what is sent in one example must not be split by the end of ten minutes.
NATIVE = DOCS / "native.md"
RUN = ("console", "python")
_END = "--- end of command ---"
_PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


class Shell:
    """One bash for a whole page, so that a variable set in one block is known in the next.

    It starts where `make` has left a reader: in a folder with `.venv`, whose programs are not on the `PATH`.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self._places = {shown: reserve_port() for shown in SHOWN_PORTS}
        environ = os.environ | {"PENSTOCK_URL": url, "PATH": readers_path()}
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[str, int]:
        """What a command printed to either output, as the page would show it, and its exit code."""
        command = command.replace(SHOWN_URL, self.url)
        for shown, place in self._places.items():
            command = re.sub(rf"(port |127\.0\.0\.1:){shown}\b", rf"\g<1>{place.getsockname()[1]}", command)
        self._process.stdin.write(f"{{ {command}\n}} </dev/null; c=$?; printf '\\n{_END} %s\\n' $c; (exit $c)\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.startswith(_END):
                text = "\n".join(lines).rstrip("\n")
                return (text + "\n" if text else ""), int(line.removeprefix(_END))
            lines.append(line.rstrip().replace(self.url, SHOWN_URL))
        raise AssertionError(f"the shell ended at: {command}")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        # What a page has started and, because it failed half-way, has not stopped.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.stdout.close()
        for place in self._places.values():
            place.close()


def readers_path() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "penstock").exists())


def steps(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            assert found, f"line {block.line}: a console block starts with a command"
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def run_console(shell: Shell, block: Block) -> None:
    todo = steps(block)
    following = [command for command, _ in todo[1:]] + [""]
    for (command, shown), after in zip(todo, following, strict=True):
        printed, code = shell.run(command)
        assert pattern(shown).fullmatch(printed), f"line {block.line}: {command}\nshown:\n{shown}\nprinted:\n{printed}"
        assert code == 0 or after == "echo $?", f"line {block.line}: {command} ended with {code}\n{printed}"


def run_script(shell: Shell, block: Block, python: str = ".venv/bin/python") -> None:
    """As the page says: saved as a file, and run by the Python in `.venv`, or by another."""
    (shell.folder / "work.py").write_text(block.text.replace(SHOWN_HOST, shell.url.removeprefix("http://")))
    printed, code = shell.run(f"{python} work.py")
    assert code == 0, printed
    assert pattern(shown_by(block)).fullmatch(printed), f"line {block.line}\nprinted:\n{printed}"


def shown_by(block: Block) -> str:
    return "".join(f"{text}\n" for text in _PRINTED.findall(block.text))


def run_python(block: Block, names: dict[str, object], url: str) -> None:
    code = compile(block.text.replace(SHOWN_URL, url), f"line {block.line} and on", "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, names)
    shown = shown_by(block)
    printed = output.getvalue().replace(url, SHOWN_URL)
    assert pattern(shown).fullmatch(printed), f"line {block.line}\nshown:\n{shown}\nprinted:\n{printed}"


@pytest.fixture
def shell(server: ThreadServer, tmp_path: Path) -> Iterator[Shell]:
    for needed in ("bash", "curl", "ps", "pgrep"):
        if shutil.which(needed) is None:
            not_installed(needed)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    shell = Shell(folder, server.url)
    yield shell
    shell.close()


# The page of the command line starts some seventy programs, which takes its time on a busy machine.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.language in RUN for block in blocks(page))], ids=name_of
)
def test_examples(page: Path, server: ThreadServer, shell: Shell) -> None:
    names: dict[str, object] = {}
    if page not in FIRST:
        shell.run('export PATH="$PWD/.venv/bin:$PATH"')
    if page == NATIVE:
        server.clock.advance(600 - time.time() % 600)
    if page == SQS:
        shell.run(f'export PATH="$PATH:{Path(program(NEWEST, "aws")).parent}"')
    for block in blocks(page):
        if block.language == "console":
            run_console(shell, block)
        elif block.language == "python" and page == README:
            run_script(shell, block)
        elif block.language == "python" and page == SQS:
            run_script(shell, block, program(NEWEST, "python"))
        elif block.language == "python":
            run_python(block, names, server.url)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_can_be_run_is_run(page: Path) -> None:
    """A request that a reader may copy must not hide in a block that is never run."""
    for block in blocks(page):
        if block.language not in RUN:
            assert "curl " not in block.text, f"line {block.line}"
            assert not block.text.startswith("$ "), f"line {block.line}: commands with a prompt are for console blocks"


def test_the_readme_has_examples_of_both_kinds() -> None:
    assert {"console", "python"} <= {block.language for block in blocks(README)}


@pytest.mark.parametrize(
    ("shown", "printed", "matches"),
    [
        ("", "", True),
        ("", "something\n", False),
        ("a\n", "a\n", True),
        ("a\n", "ab\n", False),
        ('{"id":"…"}\n', '{"id":"12"}\n', True),
        ('{"id":"…"}\n', '{"id":"12"}\n{"id":"13"}\n', False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n…\nz\n", "a\nb\n", False),
        ("…\n", "", True),
    ],
)
def test_wildcards(shown: str, printed: str, matches: bool) -> None:
    assert bool(pattern(shown).fullmatch(printed)) is matches
