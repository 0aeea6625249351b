"""`penstock serve` and `penstock config`, and the flags that they share: one for every setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from dataclasses import asdict
from typing import Any

import click
from click.shell_completion import CompletionItem

from penstock.cli.output import note, print_json, print_table
from penstock.server.config import SETTINGS, Loaded, Setting, load, shown, shown_value

_METAVARS: dict[type, str] = {int: "N", float: "SECONDS", str: "TEXT"}


def setting_options(command: Callable[..., Any], without: Container[str] = ()) -> Callable[..., Any]:
    for setting in reversed(list(SETTINGS.values())):
        if setting.name not in without:
            command = _option(setting)(command)
    return click.option(
        "--config",
        "path",
        metavar="PATH",
        help="File to read settings from.  [env: PENSTOCK_CONFIG; else ./penstock.toml]",
    )(command)


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The value stays text: the settings themselves say what is right, wherever it comes from."""
    help = f"{setting.help}  [default: {shown(setting.default) or 'none'}]"
    if setting.kind is bool:
        flags = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return click.option(flags, setting.name, default=None, help=help)
    metavar = "|".join(setting.choices) or _METAVARS[setting.kind]
    if setting.many:
        return click.option(
            *setting.flags, setting.name, metavar=metavar, multiple=True, callback=_joined, help=f"{help}  [repeatable]"
        )

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return [CompletionItem(choice) for choice in setting.choices if choice.startswith(incomplete)]

    return click.option(setting.flag, setting.name, metavar=metavar, shell_complete=complete, help=help)


def _joined(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> str | None:
    return ",".join(given) or None


def load_settings(path: str | None, flags: dict[str, object]) -> Loaded:
    return load(flags, os.environ, path=path)


@click.command()
@setting_options
def serve(path: str | None, **flags: object) -> None:
    """Run a server until it is told to stop (Ctrl-C or SIGTERM).

    A setting is taken from the command line, else from the environment (PENSTOCK_PORT for --port), else
    from a TOML file (port = 8080), else it has its default. 'penstock config' shows them all.
    """
    loaded = load_settings(path, flags)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    # Here and not above: no other command pays for loading a server.
    from penstock.server.run import run

    run(loaded.config, lambda: load_settings(path, flags).config)


@click.command()
@setting_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(path: str | None, as_json: bool, **flags: object) -> None:
    """Show the settings that 'penstock serve' would have here."""
    loaded = load_settings(path, flags)
    values = {
        name: shown_value(SETTINGS[name], value) if isinstance(value, str) else value
        for name, value in asdict(loaded.config).items()
    }
    if as_json:
        settings = {name: {"value": value, "from": loaded.sources[name]} for name, value in values.items()}
        print_json({"settings": settings, "warnings": loaded.warnings})
        return
    rows = [(name, shown(value), loaded.sources[name]) for name, value in values.items()]
    print_table(rows, ("setting", "value", "from"))
    for warning in loaded.warnings:
        note(f"warning: {warning}")
