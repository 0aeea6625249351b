"""What a server does: `/metrics` for Prometheus, and `/v1/processes` for `penstock top` and other programs. Every
process can tell of all.

    routes.py      the paths, and which format a scraper likes best
    store_look.py  what the broker is asked
    families.py    every family of series: its name, its labels, its help
    writing.py     families as text, in both formats
    totals.py      what processes have counted, and sums of it
"""

from __future__ import annotations

from penstock.faces.metrics.families import ServerReport
from penstock.faces.metrics.routes import Look, Reports, metrics_routes
from penstock.faces.metrics.store_look import AskStore, StoreLook, StoreReport
from penstock.faces.metrics.totals import ProcessTotals, broker_totals, total_of, traffic_totals

__all__ = [
    "AskStore",
    "Look",
    "ProcessTotals",
    "Reports",
    "ServerReport",
    "StoreLook",
    "StoreReport",
    "broker_totals",
    "metrics_routes",
    "total_of",
    "traffic_totals",
]
