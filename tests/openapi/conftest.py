"""The document as it is built for all faces together, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from penstock.edge.router import Route
from penstock.faces.metrics import ServerReport, metrics_routes
from penstock.faces.openapi import build
from penstock.faces.probes import probe_routes
from penstock.pending import Pending
from penstock.server.config import Config
from penstock.server.faces import FACES

# Routes are only looked at here: no handler runs, so no broker is needed.
NO_BROKER: Any = None
NO_KEYRING: Any = None
ROUTES: Mapping[str, Sequence[Route]] = {
    **{name: face.routes(NO_BROKER, NO_KEYRING, Config(), frozenset()) for name, face in FACES.items()},
    "metrics": metrics_routes(ServerReport, Pending),
    "probes": probe_routes(None),
}
DOCUMENT = build(chain.from_iterable(ROUTES.values()))
