"""A store whose driver is not installed."""

from __future__ import annotations

import sys

import pytest

from penstock.errors import InvalidSetting
from penstock.stores import open_store


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://127.0.0.1/x", "psycopg", "postgresql"), ("mariadb://127.0.0.1/x", "pymysql", "mariadb")],
)
def test_a_missing_driver_is_named(monkeypatch, url, driver, extra):
    for name in [name for name in sys.modules if name.startswith(f"penstock.stores.sql.engines.{extra}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name == driver or name.startswith(f"{driver}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(InvalidSetting, match=rf"{driver}.*\[{extra}\]"):
        open_store(url)
