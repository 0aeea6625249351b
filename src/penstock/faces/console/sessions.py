"""Who is signed in: sessions that every process of every server on a store can read, because they are in the cookie.

A cookie holds a session as a value and a signature under a key that is derived from the secret of the store. It names
an API key and never holds its secret; what the key may do is looked up with every request, so that a key that is
revoked or expires ends its sessions, and so does a secret that is retired, those of its own. That a session was signed
out of is kept with its key, in the store: a cookie that somebody has copied is worth nothing then, at any server. Where
no keys are asked for there are sessions too, of no one in particular: the tokens against forged forms are bound to
them.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from secrets import token_urlsafe
from typing import Final

import msgspec
from msgspec import Struct

from penstock.clock import Clock
from penstock.keys import Keyring
from penstock.model import Key

_SIGNATURE_BYTES: Final = 32
# The longest cookie that is looked at. Those that are made are a tenth of that.
_LONGEST: Final = 2_000
# A session is written again after this part of the time that it may be idle.
_RENEWALS: Final = 10


class Session(Struct, frozen=True, array_like=True):
    """`key` is the name of an API key, None for no one, and `stamp` tells it from any other that might be called so.
    `secure` says that the cookie travels by TLS only."""

    id: str
    key: str | None
    stamp: str
    began_at: int
    seen_at: int
    secure: bool


class Standing(Enum):
    """What a session is worth."""

    GOOD = auto()
    NONE = auto()  # no one has signed in
    IDLE = auto()  # it was not used for too long, or has lasted as long as one may
    REVOKED = auto()  # its key is, or the secret it was signed in with is retired
    EXPIRED = auto()  # its key has
    ENDED = auto()  # it was signed out of


@dataclass(frozen=True, slots=True)
class SessionTerms:
    idle_ms: int = 30 * 60 * 1000
    longest_ms: int = 12 * 60 * 60 * 1000


class Sessions:
    def __init__(
        self,
        keyring: Keyring,
        clock: Clock,
        terms: SessionTerms = SessionTerms(),
        randomness: Callable[[], str] = token_urlsafe,
    ) -> None:
        self._keyring = keyring
        self._clock = clock
        self._terms = terms
        self._randomness = randomness
        self._signing_key = keyring.derive(b"console session")
        self._read = msgspec.json.Decoder(Session).decode
        # Cookies do not know ports: two servers on one machine must not sign each other out, and two on one store
        # may share.
        self.cookie = "penstock_" + self._sign(b"cookie", b"")[:4].hex()

    def begin(self, key: Key | None = None, secure: bool = False, secret: bytes | None = None) -> Session:
        """With a secret of the key, or else its present one."""
        now = self._clock()
        digest = b"" if key is None else key.digest if secret is None else self._keyring.digest(secret)
        stamp = "" if key is None else self._stamp(digest)
        return Session(self._randomness(), None if key is None else key.name, stamp, now, now, secure)

    def seal(self, session: Session) -> str:
        """As it stands in a cookie."""
        said = msgspec.json.encode(session)
        return urlsafe_b64encode(self._sign(b"session", said) + said).decode().rstrip("=")

    def unseal(self, text: str) -> Session | None:
        """None for whatever this store has not sealed."""
        if len(text) > _LONGEST:
            return None
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            signature, said = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
            if not hmac.compare_digest(signature, self._sign(b"session", said)):
                return None
            return self._read(said)
        except (ValueError, msgspec.DecodeError):
            return None

    def standing(self, session: Session | None) -> Standing:
        """Of a session where keys are asked for."""
        if session is None or session.key is None:
            return Standing.NONE
        key = self.key_of(session)
        if key is None:
            return Standing.EXPIRED if self._keyring.has_expired(session.key) else Standing.REVOKED
        if session.id in key.ended:
            return Standing.ENDED
        now, terms = self._clock(), self._terms
        if now - session.seen_at > terms.idle_ms or now - session.began_at > terms.longest_ms:
            return Standing.IDLE
        return Standing.GOOD

    def key_of(self, session: Session) -> Key | None:
        """The API key of a session, as it is now."""
        key = None if session.key is None else self._keyring.find_named(session.key)
        return key if key is not None and self._digest_of(key, session) is not None else None

    def note_use(self, key: Key, session: Session) -> None:
        """A request came with this session: the secret that it was signed in with is used."""
        digest = self._digest_of(key, session)
        if digest is not None:
            self._keyring.note_use(digest)

    def _digest_of(self, key: Key, session: Session) -> bytes | None:
        """Which secret of the key a session was signed in with, if that is still good."""
        for digest in self._keyring.good_digests(key):
            if hmac.compare_digest(self._stamp(digest), session.stamp):
                return digest
        return None

    def renewed(self, session: Session) -> Session | None:
        """The session as it is to be kept from now on, where that differs enough to write it again."""
        now = self._clock()
        if session.key is None or now - session.seen_at < self._terms.idle_ms // _RENEWALS:
            return None
        return msgspec.structs.replace(session, seen_at=now)

    def latest_end(self, session: Session) -> int:
        """When it ends at the latest. Until then it must be remembered that it was signed out of."""
        return session.began_at + self._terms.longest_ms + 1

    def token(self, session: Session) -> str:
        """What a form of this session has to carry, and no page of another origin can read."""
        return urlsafe_b64encode(self._sign(b"form", session.id.encode())[:24]).decode()

    def is_token(self, session: Session, text: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), text.encode("utf-8", "replace"))

    def seal_note(self, session: Session, text: str) -> str:
        """A text for the next page of this session."""
        said = text.encode()
        signed = self._sign(b"note", session.id.encode() + b"\n" + said)
        return urlsafe_b64encode(signed + said).decode().rstrip("=")

    def unseal_note(self, session: Session, sealed: str) -> str | None:
        if len(sealed) > _LONGEST:
            return None
        try:
            raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
            signature, said = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
            if not hmac.compare_digest(signature, self._sign(b"note", session.id.encode() + b"\n" + said)):
                return None
            return said.decode()
        except ValueError:
            return None

    def _stamp(self, digest: bytes) -> str:
        return self._sign(b"key", digest)[:12].hex()

    def _sign(self, purpose: bytes, said: bytes) -> bytes:
        return hmac.digest(self._signing_key, purpose + b"\n" + said, "sha256")
