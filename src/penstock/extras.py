"""How to get what is installed only where it is wanted: Spark, Arrow and the drivers of databases.

The name `penstock` belongs to another project on PyPI, so no line of ours may tell a reader to fetch it there: what can
be installed is a checkout or the wheel that `make wheel` builds from it.
"""

from __future__ import annotations

from penstock import __version__

WHEEL = f"penstock_mq-{__version__}-py3-none-any.whl"

# `make setup` and with it `make run` install what every server may need; Spark is half a gigabyte, and asked for alone.
_TARGETS = {"spark": "spark"}


def how_to_get(extra: str) -> str:
    """For an error: what to run in a checkout, and what elsewhere."""
    return f"run 'make {_TARGETS.get(extra, 'setup')}' in the checkout, or pip install '{WHEEL}[{extra}]'"
