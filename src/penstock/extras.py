"""How to get the optional parts: Spark, Arrow and the database drivers.

The name `penstock` belongs to another project on PyPI, so no text of ours may tell a reader to install it from there:
only a checkout, or a wheel that `make dist` builds from it, can be installed.
"""

from __future__ import annotations

from penstock import __version__

WHEEL = f"penstock_mq-{__version__}-py3-none-any.whl"

# `make setup`, and with it `make run`, installs what every server may need. Spark is half a gigabyte, so it has its own
# target.
_TARGETS = {"spark": "spark"}


def how_to_get(extra: str) -> str:
    """For an error: what to run in a checkout, and what elsewhere."""
    return f"run 'make {_TARGETS.get(extra, 'setup')}' in the checkout, or pip install '{WHEEL}[{extra}]'"
