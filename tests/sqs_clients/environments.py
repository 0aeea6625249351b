"""The environments of the real clients, which `make test` sets up beside that of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.docs.pages import ROOT
from tests.lacking import not_installed

# What each SDK speaks, and where it is.
GENERATIONS = {"json": ".venv-clients", "query": ".venv-clients-query"}
NEWEST = GENERATIONS["json"]
PROGRAMS = Path(__file__).parent / "programs"
REGION = "eu-central-1"


def program(environment: str, name: str) -> str:
    path = ROOT / environment / "bin" / name
    if not path.exists():
        not_installed(f"what is in {environment}", "make test-programs sets it up")
    return str(path)


def environ(**more: str) -> dict[str, str]:
    """What a client sees: nothing of the tests' own environment, and nothing of the account of the person that runs
    them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON", "PENSTOCK_"))}
    return {
        **kept,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "thing",
        "NO_PROXY": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
        **more,
    }
