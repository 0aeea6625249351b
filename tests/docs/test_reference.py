"""Whatever the code offers is documented, and whatever is documented is there."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import click
import pytest

import penstock.client
from penstock.cli import main
from penstock.client import Client
from penstock.client import errors as client_errors
from penstock.client.arrow import Arrow
from penstock.edge.router import Route
from penstock.faces.metrics import ServerReport, metrics_routes
from penstock.faces.openapi import openapi_routes
from penstock.faces.probes import probe_routes
from penstock.pending import Pending
from penstock.server.config import SETTINGS, Config, shown
from penstock.server.faces import FACES as SERVED
from penstock.server.faces import reserved_here
from penstock.stores.sql import schema
from penstock.stores.transfer.marks import Handover, Migration
from tests.docs.pages import DOCS, PAGES, ROOT, name_of, prose_of, sections, text_of

# Routes are only looked at here: no handler runs, so no broker is needed.
NO_BROKER: Any = None
NO_KEYRING: Any = None
FACES = {f"{name}.md": face.routes(NO_BROKER, NO_KEYRING, Config(), frozenset()) for name, face in SERVED.items()}
# The second service has the same routes under another name, which the page says once.
FACES["emodb.md"] = [route for route in FACES["emodb.md"] if route.pattern.startswith("/queue/")]
FACES["openapi.md"] = openapi_routes(())
FACES["metrics.md"] = metrics_routes(ServerReport, Pending)
FACES["deployment.md"] = probe_routes(None)
_ROUTE = re.compile(r"`((?:GET|HEAD|PUT|POST|PATCH|DELETE) /\S*)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


# Settings


def settings_rows() -> dict[str, list[str]]:
    """The rows of the tables of settings.md that are about a setting, by its name."""
    rows = [line.strip("|").split("|") for line in prose_of(DOCS / "settings.md").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return {row[0].strip("`"): row for row in cells if re.fullmatch(r"`\w+`", row[0])}


def test_every_setting_is_documented_and_no_other() -> None:
    assert list(settings_rows()) == list(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_settings_row_is_right(name: str) -> None:
    setting, row = SETTINGS[name], settings_rows()[name]
    assert row[1:4] == [f"`{setting.flag}`", f"`{setting.variable}`", f"`{shown(setting.default) or '(empty)'}`"]
    for choice in setting.choices:
        assert f"`{choice}`" in row[4]


def test_what_a_running_server_takes_over_is_listed_and_nothing_else() -> None:
    [section] = [one for one in sections(DOCS / "settings.md") if one.title == "While a server runs"]
    named = set(re.findall(r"`(\w+)`", section.text))
    assert named == {name for name, setting in SETTINGS.items() if setting.live}


def test_every_variable_that_is_named_is_read() -> None:
    known = {setting.variable for setting in SETTINGS.values()}
    known |= {"PENSTOCK_CONFIG", "PENSTOCK_URL", "PENSTOCK_API_KEY", "PENSTOCK_CACERT", "PENSTOCK_MQ_ROOT"}
    known |= {"PENSTOCK_TEST_WORKERS"}
    for page in PAGES:
        assert set(re.findall(r"\bPENSTOCK_[A-Z0-9_]*[A-Z]", text_of(page))) <= known, name_of(page)


# The command line


def commands() -> dict[str, click.Command]:
    """Every command with all its words."""

    def walk(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
        children = getattr(command, "commands", {})
        if not children:
            yield words, command
        for name, child in children.items():
            yield from walk(child, f"{words} {name}")

    return dict(walk(main, "penstock"))


def flags(command: click.Command) -> set[str]:
    """Its own options: a setting is documented with the settings, `--help` by itself."""
    return {
        flag
        for option in command.params
        if isinstance(option, click.Option) and option.name not in SETTINGS
        for flag in (*option.opts, *option.secondary_opts)
    }


def command_sections() -> dict[str, str]:
    """The sections of cli.md that are about a command, by all its words."""
    return {
        found[1]: section.text
        for section in sections(DOCS / "cli.md")
        if (found := re.match(r"`(penstock(?: [a-z-]+)+)", section.title))
    }


SHARED = "Options of every command that talks to a server"


def test_every_command_is_documented_and_no_other() -> None:
    assert set(command_sections()) == set(commands())


@pytest.mark.parametrize("words", commands())
def test_every_option_is_documented_and_no_other(words: str) -> None:
    [shared_text] = [section.text for section in sections(DOCS / "cli.md") if section.title == SHARED]
    shared = set(_FLAG.findall(shared_text))
    own = flags(commands()[words])
    if "--url" in own and "--json" in own:
        own -= shared
    assert set(_FLAG.findall(command_sections()[words])) - set(_of_settings()) == own


def _of_settings() -> set[str]:
    return {setting.flag for setting in SETTINGS.values()}


def test_no_page_names_an_option_that_is_none() -> None:
    known = _of_settings() | {"--help", "--version"}
    for command in commands().values():
        known |= flags(command)
    for page in PAGES:
        for line in text_of(page).splitlines():
            if "penstock " in line and "curl" not in line:
                assert set(_FLAG.findall(line.partition("penstock ")[2])) <= known, f"{name_of(page)}: {line}"


def test_every_exit_code_is_documented() -> None:
    [text] = [section.text for section in sections(DOCS / "cli.md") if section.title == "Exit codes"]
    assert re.findall(r"^\| (\d+) ", text, re.MULTILINE) == [
        *re.findall(r"^  (\d)  ", main.epilog, re.MULTILINE),
        "130",
    ]


# The APIs


def asked(routes: Iterable[Route]) -> set[str]:
    return {f"{route.method} {route.pattern}" for route in routes}


@pytest.mark.parametrize("page", FACES)
def test_every_route_has_a_heading_and_every_heading_a_route(page: str) -> None:
    headings = [found[1] for section in sections(DOCS / page) if (found := _ROUTE.fullmatch(section.title))]
    assert len(headings) == len(set(headings))
    assert set(headings) == asked(FACES[page])


def test_no_page_names_a_route_that_is_none() -> None:
    known = {route for routes in FACES.values() for route in asked(routes)}
    known |= {f"HEAD {route.pattern}" for routes in FACES.values() for route in routes if route.head}
    for page in PAGES:
        if page.parent.name != "decisions":
            assert set(_ROUTE.findall(prose_of(page))) <= known, name_of(page)


def test_every_reserved_word_of_mqcore_is_documented_and_no_other() -> None:
    [section] = [one for one in sections(DOCS / "mqcore.md") if one.title == "Reserved words"]
    listed = re.findall(r"`([^`]+)`", section.text.partition("Creating")[0])
    assert sorted(listed) == sorted(reserved_here(NO_BROKER, NO_KEYRING, Config()))


def test_every_header_of_mqs_is_documented_and_no_other() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/penstock/faces/mqs").glob("*.py"))
    read_or_written = {header.upper() for header in re.findall(r'"(x-[a-z-]+)"', source, re.IGNORECASE)}
    assert set(re.findall(r"\bX-[A-Z-]*[A-Z]\b", text_of(DOCS / "mqs.md"))) == read_or_written


# The client


def test_every_part_of_the_client_is_documented() -> None:
    text = text_of(DOCS / "client.md")
    methods = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    for name in methods:
        assert f"client.{name}(" in text, name
    for name in penstock.client.__all__:
        assert f"`{name}" in text, name
    assert set(re.findall(r"\bclient\.(\w+)\(", text)) <= set(methods)


def test_every_verb_in_arrow_is_documented() -> None:
    verbs = {name for name, _ in inspect.getmembers(Arrow, inspect.isfunction) if not name.startswith("_")}
    assert set(re.findall(r"\bclient\.arrow\.(\w+)\(", text_of(DOCS / "client.md"))) == verbs


def test_every_error_of_the_client_stands_in_the_tree_on_its_page() -> None:
    tree = text_of(DOCS / "client.md").partition("\nClientError\n")[2].partition("```")[0]
    kinds = [kind for kind in vars(client_errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, client_errors.Refused | client_errors.ServerFailed | client_errors.Unreachable):
            assert f"── {kind.__name__} " in tree, kind.__name__


# The store


def test_every_table_index_and_column_is_in_the_layout() -> None:
    text = text_of(DOCS / "tables.md")
    dropped = re.findall(r"^DROP INDEX (\w+)", "".join(schema.scripts("sqlite")), re.MULTILINE)
    for script in schema.scripts("sqlite"):
        names = re.findall(r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)", script, re.MULTILINE)
        names += re.findall(r"^(?:    |ALTER TABLE \w+ ADD COLUMN )(\w+) (?:INTEGER|TEXT|BLOB)", script, re.MULTILINE)
        assert names
        for name in names:
            assert (f"`{name}`" in text) is (name not in dropped), name


@pytest.mark.parametrize("mark", [Handover, Migration])
def test_every_column_of_a_mark_is_in_its_section(mark: type[Handover | Migration]) -> None:
    """No script makes these tables."""
    [text] = [section.text for section in sections(DOCS / "tables.md") if section.title == f"`{mark.__name__.lower()}`"]
    for field in dataclasses.fields(mark):
        assert f"`{field.name}`" in text, field.name
