"""The fixtures of the tests of keys."""

from tests.keys.conftest import key_store, keyed

__all__ = ["key_store", "keyed"]
