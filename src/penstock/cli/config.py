"""`penstock config`: every setting, its value, and where that came from."""

from __future__ import annotations

from dataclasses import asdict

import click

from penstock.cli.output import note, print_json, print_table
from penstock.cli.serve import load_settings, setting_options
from penstock.server.config import shown


@click.command()
@setting_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(path: str | None, as_json: bool, **flags: object) -> None:
    """Show the settings that 'penstock serve' would have here."""
    loaded = load_settings(path, flags)
    values = {name: shown(value) if isinstance(value, str) else value for name, value in asdict(loaded.config).items()}
    if as_json:
        settings = {name: {"value": value, "from": loaded.origins[name]} for name, value in values.items()}
        print_json({"settings": settings, "warnings": loaded.warnings})
        return
    rows = [(name, shown(value), loaded.origins[name]) for name, value in values.items()]
    print_table(rows, ("setting", "value", "from"))
    for warning in loaded.warnings:
        note(f"warning: {warning}")
