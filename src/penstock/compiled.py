"""Whether what every request passes through runs compiled. The source is the same: see `setup.py`."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Without importing anything of it."""
    spec = find_spec("penstock.pending")
    return spec is not None and not str(spec.origin).endswith(".py")
