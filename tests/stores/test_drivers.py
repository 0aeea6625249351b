"""A store whose driver is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules[{driver!r}] = None
from penstock.errors import InvalidSetting
from penstock.stores import open_store
try:
    open_store({url!r})
except InvalidSetting as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://127.0.0.1/x", "psycopg", "postgresql"), ("mariadb://127.0.0.1/x", "pymysql", "mariadb")],
)
def test_a_missing_driver_is_named(url, driver, extra):
    """In a process of its own: what is compiled is imported once and for all."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(driver=driver, url=url)], capture_output=True, text=True, check=True
    )
    assert driver in done.stdout
    assert f"[{extra}]" in done.stdout
