"""Lines of the log in which a server says of itself what an operator looks for, be it one process or several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from penstock import __version__
from penstock.server import certificate, logs
from penstock.server.config import Config, place_of
from penstock.server.front import near

log = logging.getLogger(__name__)


def say_where(url: str, config: Config, has_pages: bool, has_console: bool) -> None:
    log.info("Penstock %s serves %s from %s", __version__, url, place_of(config.store))
    if has_pages:
        log.info("for people: %s/ (the APIs, to browse and try); for programs: %s/openapi.json", near(url), near(url))
    if has_console:
        log.info("the console, to look at queues and act on them: %s/console", near(url))
    _warn_of_certificate(config)


def say_reloaded(config: Config, unheeded: Sequence[str]) -> None:
    """`unheeded` are the settings for which a restart is needed."""
    logs.configure(config.log_level, config.log_format)
    if unheeded:
        log.warning("settings are read again; a restart is needed for %s", ", ".join(unheeded))
    else:
        log.info("settings are read again")
    _warn_of_certificate(config)


def _warn_of_certificate(config: Config) -> None:
    """It is served all the same: clients that do not look at the date still work, and the others say why."""
    for complaint in certificate.complaints(config.tls_cert, datetime.now(UTC)) if config.tls_cert else ():
        log.warning("%s: clients that look at the date refuse it", complaint)
