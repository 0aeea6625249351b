"""The certificate of a server that speaks TLS, and a new one in its place."""

from __future__ import annotations

import ssl

from penstock.errors import InvalidSetting
from penstock.server.config import Config


def tls_context(config: Config) -> ssl.SSLContext | None:
    """None where the settings name no certificate. Raises InvalidSetting."""
    if not config.tls_cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client of TLS 1.2 may not have the server do the costly part of a handshake again and again. OpenSSL 3 refuses
    # that by itself; earlier ones do not.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidSetting(f"tls_cert or tls_key cannot be used: {error}") from error
    return context


def renew(context: ssl.SSLContext | None, config: Config) -> None:
    """Take the certificate from its files again. Raises InvalidSetting, and has changed nothing then."""
    if context is not None:
        tls_context(config)
        context.load_cert_chain(config.tls_cert, config.tls_key)
