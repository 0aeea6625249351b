"""The commands, run inside the test's process against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main


@pytest.fixture
def run(server) -> Callable[..., Result]:
    def run(*words: str, stdin: bytes | str | None = None) -> Result:
        return CliRunner(env={"PENSTOCK_URL": server.url}).invoke(main, words, input=stdin)

    return run


@pytest.fixture
def run_json(run) -> Callable[..., Any]:
    """What a command prints with `--json`, read back."""

    def run_json(*words: str, code: int = 0, **options: Any) -> Any:
        result = run(*words, "--json", **options)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    return run_json
