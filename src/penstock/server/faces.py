"""The APIs a server can speak: what each needs of a store, and which are served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain

from penstock.broker import Broker
from penstock.edge.http import Traffic
from penstock.edge.router import Errors, Route
from penstock.errors import InvalidSetting
from penstock.faces.answers import error_response
from penstock.faces.console import WORD as CONSOLE
from penstock.faces.console import Console, console_routes
from penstock.faces.console import explaining as explaining_console
from penstock.faces.emodb import emodb_routes
from penstock.faces.metrics import AskStore, Look, ServerReport, metrics_routes
from penstock.faces.mqcore import explaining, mqcore_routes, reserved_words
from penstock.faces.mqs import mqs_routes
from penstock.faces.native import native_routes
from penstock.faces.openapi import openapi_routes
from penstock.faces.probes import Probes, probe_routes
from penstock.faces.sqs import AwsPlace, root_of, sqs_routes
from penstock.faces.sqs import explaining as explaining_sqs
from penstock.keys import Keyring
from penstock.pending import Pending
from penstock.server.config import Config
from penstock.stores.protocol import NOUNS, Noun


@dataclass(frozen=True, slots=True)
class Face:
    """`routes` is told which words are reserved for the other APIs on the same port."""

    needs: frozenset[Noun]
    routes: Callable[[Broker, Keyring, Config, frozenset[str]], list[Route]]


# Consumers are gq's, which works on a store without a server.
_ALL_BUT_CONSUMERS: frozenset[Noun] = frozenset(NOUNS) - {"consumers"}

FACES: Mapping[str, Face] = {
    "mqs": Face(
        frozenset({"messages"}),
        lambda broker, _keyring, config, _reserved: mqs_routes(broker, cut_oversize=config.mqs_oversize == "cut"),
    ),
    "native": Face(_ALL_BUT_CONSUMERS, lambda broker, keyring, _config, _reserved: native_routes(broker, keyring)),
    "emodb": Face(frozenset({"messages", "moves"}), lambda broker, _keyring, _config, _reserved: emodb_routes(broker)),
    "sqs": Face(
        frozenset({"messages", "moves"}),
        lambda broker, _keyring, config, _reserved: sqs_routes(broker, _place(config)),
    ),
    "mqcore": Face(
        frozenset(),
        lambda broker, _keyring, config, reserved: mqcore_routes(
            broker, int(config.mqcore_redelivery_s * 1000), reserved
        ),
    ),
}


# What the pages of the console show.
_OF_CONSOLE: frozenset[Noun] = frozenset({"messages", "moves", "ledger", "keys"})

_NONE: frozenset[str] = frozenset()


def _place(config: Config) -> AwsPlace:
    base_url = config.sqs_base_url.rstrip("/")
    return AwsPlace(config.sqs_account, config.sqs_region, base_url, "https" if config.tls_cert else "http")


def chosen_faces(asked: str, store_url: str, missing: Collection[Noun]) -> list[str]:
    """The faces that were asked for, or by default all that the store can carry. `missing` is what it does not
    have."""
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if not names:
        return [name for name, face in FACES.items() if face.needs.isdisjoint(missing)]
    for name in names:
        if name not in FACES:
            raise InvalidSetting(f"faces names {name!r}, which is not one of {', '.join(FACES)}")
        lacks = [NOUNS[noun] for noun in missing if noun in FACES[name].needs]
        if lacks:
            raise InvalidSetting(f"{store_url} cannot carry the {name} API: it does not keep {', '.join(lacks)}")
    return names


def serves_console(config: Config, faces: Collection[str], missing: Collection[Noun]) -> bool:
    """MQ-Core alone has the root of all paths to itself."""
    return config.console == "on" and set(faces) != {"mqcore"} and _OF_CONSOLE.isdisjoint(missing)


def reserved_here(broker: Broker, keyring: Keyring, config: Config) -> frozenset[str]:
    """The words that cannot be queues of MQ-Core beside others: those of every API, served or not, so that serving one
    more later takes no queue away."""
    others = [face.routes(broker, keyring, config, _NONE) for name, face in FACES.items() if name != "mqcore"]
    described = chain(openapi_routes(()), metrics_routes(ServerReport, Pending), probe_routes(None), *others)
    return reserved_words(described) | {CONSOLE}


@dataclass(frozen=True, slots=True)
class Served:
    """`errors` is how a request is answered that matches no route, `traffics` where those that do are counted."""

    routes: list[Route]
    errors: Errors
    traffics: list[Traffic]


def face_routes(
    names: list[str],
    broker: Broker,
    keyring: Keyring,
    config: Config,
    look: Look,
    ask_store: AskStore,
    probes: Probes,
    console: Console | None = None,
    kind: str = "",
) -> Served:
    """All routes of these faces and of the console. `kind` is the kind of store, as its URLs name it."""
    # MQ-Core has the root of all paths to itself only where it is alone.
    shared = "mqcore" in names and len(set(names)) > 1
    reserved = reserved_here(broker, keyring, config) if shared else _NONE
    served = {name: FACES[name].routes(broker, keyring, config, reserved) for name in dict.fromkeys(names)}
    if set(names) != {"mqcore"}:
        served["metrics"] = metrics_routes(look, ask_store, kind)
        served["probes"] = probe_routes(probes)
        served["openapi"] = openapi_routes(list(chain(*served.values())))
    if console is not None:
        # After what is described to programs: it is for people.
        served["console"] = console_routes(console)
    traffics = _labelled(served)
    routes = _sharing_root(list(chain(*served.values())))
    # An error that no handler has foreseen is answered and logged like any other failure.
    errors = Errors(failed=lambda _request, error: error_response(error))
    if "sqs" in names:
        errors = explaining_sqs(errors)
    if console is not None:
        errors = explaining_console(errors, console)
    return Served(routes, explaining(errors, reserved) if reserved else errors, traffics)


def _labelled(served: Mapping[str, list[Route]]) -> list[Traffic]:
    """What each route answers is counted with the name of its API."""
    for name, routes in served.items():
        for route in routes:
            route.traffic.label(name, route.method, route.pattern)
    return [route.traffic for route in chain(*served.values())]


def _sharing_root(routes: list[Route]) -> list[Route]:
    """All of them; where an API answers GET at the root, it and the page for people have one route there."""

    def is_root(route: Route) -> bool:
        return (route.method, route.pattern) == ("GET", "/")

    at_root = [route for route in routes if is_root(route)]
    others = [route for route in routes if not is_root(route)]
    return [*others, root_of(*at_root)] if len(at_root) == 2 else routes
