"""The native API: its tables put together, and the schemas that several of them use."""

from __future__ import annotations

from penstock.faces.openapi import (
    native_keys,
    native_ledger,
    native_messages,
    native_moves,
    native_queues,
    native_shipments,
)
from penstock.faces.openapi.parts import Face

_TABLES = (native_queues, native_messages, native_moves, native_shipments, native_ledger, native_keys)

FACE = Face(
    tags={tag: said for table in _TABLES for tag, said in table.TAGS.items()},
    schemas={name: shape for table in _TABLES for name, shape in table.SCHEMAS.items()},
    operations={asked: operation for table in _TABLES for asked, operation in table.OPERATIONS.items()},
)
