"""The versions of the schema: a numbered file of SQL for each, and which of them a database still lacks."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from penstock.errors import StoreForeign


@cache
def scripts(dialect: str) -> tuple[str, ...]:
    """The schema of a dialect, one script per version, oldest first.

    Read once: a server that opens its store again while another version is being installed must not find
    the other's scripts.
    """
    folder = files(__name__) / dialect
    found = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(entry.read_text(encoding="utf-8") for _, entry in found)


def missing(dialect: str, version: int) -> tuple[str, ...]:
    """The scripts a database of this version has not seen. A newer one than ours is refused."""
    known = scripts(dialect)
    if version > len(known):
        raise StoreForeign(
            f"this store has schema version {version}, made by a newer Penstock; this one knows up to {len(known)}"
        )
    return known[version:]
