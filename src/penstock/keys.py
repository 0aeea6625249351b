"""API keys and what they permit: rules as pure functions, and the keyring of a process.

A rule is `queue|<action>|<name>`: the name may be a glob (`orders-*`), the action `*`. The four actions:

    post        send
    poll        claim, peek, ack, renew, release, purge
    get_status  counts and settings
    admin       create, change and delete queues, move between them; on the name `*`, API keys too

A key is random and long, so a fast keyed hash of it is as safe as a slow one; the store never sees the key itself.

For clients that sign their requests as AWS does (`penstock.sigv4`) a key has a second secret. The server has to know
what it is signed with, and cannot know the first; so the second is derived from the hash of the first, from the secret
of the store and from a pepper that is kept elsewhere, and is stored nowhere.

A key that was rotated has two secrets for a while, and so two that are derived from them.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from secrets import token_urlsafe
from typing import Final, NamedTuple

from msgspec.structs import replace

from penstock import limits, names, sigv4
from penstock.clock import Clock, system_clock
from penstock.errors import InvalidRequest, NotPermitted
from penstock.model import Key, KeyState, KeyUse, OldSecret, Redrive

ACTIONS = ("post", "poll", "get_status", "admin")
# What only a rule for every queue may do.
EVERY_QUEUE = "*"
_PREFIX = "psk_"
# Of each key one for every day and region.
_SIGNING_KEYS_KEPT = 1024
# Later than any instant.
_FOREVER: Final = 1 << 63
FIRST_KEY = "this is the first API key of the store: from now on every request through every API needs one"
# What the glob of a rule and the name of a key are made of.
GLOB = f"[A-Za-z0-9._:@*-]{{1,{limits.NAME_LENGTH}}}"
NAME_CHARACTERS = "[A-Za-z0-9._@-]"
NAME_LENGTH = 100
# Of what `digest` makes.
DIGEST_BYTES = 32
_GLOB = re.compile(GLOB, re.ASCII)
_NAME = re.compile(f"{NAME_CHARACTERS}{{1,{NAME_LENGTH}}}", re.ASCII)


def mint() -> str:
    """A new secret: 256 random bits behind a prefix that scanners for leaked secrets can recognise."""
    return _PREFIX + token_urlsafe(32)


def digest(store_secret: bytes, secret: bytes) -> bytes:
    return hmac.digest(store_secret, secret, "sha256")


def aws_secret(store_secret: bytes, pepper: str, digest: bytes) -> str:
    """What the key with this digest signs with: 43 characters that need no escape in a URL. The secret of a store has
    one length, so nothing else makes the same key of it and a pepper."""
    derived = hmac.digest(store_secret + pepper.encode(), b"penstock sigv4\n" + digest, "sha256")
    return urlsafe_b64encode(derived).decode().rstrip("=")


def check_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(f"the name of an API key is 1 to {NAME_LENGTH} of the characters A-Z a-z 0-9 . _ @ -")
    return name


def check_rules(rules: Iterable[str]) -> tuple[str, ...]:
    """The rules as they are, or an error that says what is wrong with the first bad one."""
    checked = tuple(rules)
    if not 0 < len(checked) <= limits.RULES:
        raise InvalidRequest(f"an API key has 1 to {limits.RULES} rules")
    for rule in checked:
        parts = rule.split("|")
        if len(parts) != 3 or parts[0] != "queue":
            raise InvalidRequest(f"{rule[:80]!r} is not a rule: it should be queue|<action>|<name or glob>")
        if parts[1] not in (*ACTIONS, "*"):
            raise InvalidRequest(f"{rule[:80]!r}: the action is one of {', '.join(ACTIONS)}, or *")
        if _GLOB.fullmatch(parts[2]) is None:
            raise InvalidRequest(f"{rule[:80]!r}: the name is a queue name in which * stands for anything")
    return checked


def needed_rule(action: str, queue: str) -> str:
    """The narrowest rule that permits an action on a queue."""
    return f"queue|{action}|{queue.removeprefix(names.DEDUP_SPACE)}"


def permitting_rule(rules: Sequence[str], action: str, queue: str) -> str | None:
    """The first rule that permits an action on a queue."""
    for rule in rules:
        _, allowed, glob = rule.split("|")
        if allowed in (action, "*") and _matches(glob, queue):
            return rule
    return None


def permits(rules: Sequence[str] | None, action: str, queue: str) -> bool:
    """None stands for the rules of a caller who needs no key."""
    return rules is None or permitting_rule(rules, action, queue) is not None


def check_dead_letters(rules: Sequence[str] | None, redrive: Redrive | None) -> None:
    """Dead letters are sent: a queue may only be given a dead-letter queue that its caller may send to."""
    if redrive is not None and not permits(rules, "post", redrive.dead_letter_queue):
        raise NotPermitted(needed_rule("post", redrive.dead_letter_queue))


def _matches(glob: str, queue: str) -> bool:
    if queue == EVERY_QUEUE:
        return glob == EVERY_QUEUE
    # The two name spaces of EmoDB share their rules, as they do there.
    return fits(glob, queue.removeprefix(names.DEDUP_SPACE))


def fits(glob: str, name: str) -> bool:
    """Whether a name fits a glob, in bounded time: a regular expression could take exponentially long."""
    first, *between = glob.split("*")
    if not between:
        return name == glob
    last = between.pop()
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    start, end = len(first), len(name) - len(last)
    for piece in between:
        # The earliest place leaves the most room for the pieces behind it.
        found = name.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


class Known(NamedTuple):
    """A secret of a key, and until when it is good."""

    key: Key
    digest: bytes
    until: int


class Keyring:
    """The keys of a store, as far as this process knows them. A secret that has had its time is refused at that instant
    by this clock; no one has to look for those that have."""

    def __init__(
        self, store_secret: bytes, keys: Iterable[Key] = (), pepper: str = "", clock: Clock = system_clock
    ) -> None:
        self._store_secret = store_secret
        self._pepper = pepper
        self._clock = clock
        self._signing_keys: dict[tuple[bytes, bytes], bytes] = {}
        # How often `admit`, `expel` and `end_session` were called: a list that was read before must not undo them.
        self.changes = 0
        # When secrets were last used, since that was last taken: by their digests, so as many as there are at most.
        self._uses: dict[bytes, int] = {}
        self.load(keys)

    def load(self, keys: Iterable[Key]) -> None:
        known = list(keys)
        # A store that has ever had a key always asks for one: revoking the last must not open the gate.
        self.asks_for_keys = bool(known)
        self._know({key.name: key for key in known if key.revoked_at is None})

    def admit(self, key: Key) -> None:
        """A key that this process has made or changed is in force at once."""
        self.changes += 1
        self.asks_for_keys = True
        self._know({**self._by_name, key.name: key})

    def expel(self, name: str) -> None:
        self.changes += 1
        self._know({other: key for other, key in self._by_name.items() if other != name})

    def end_session(self, name: str, session: str) -> None:
        self.changes += 1
        key = self._by_name.get(name)
        if key is not None:
            self._know({**self._by_name, name: replace(key, ended=key.ended | {session})})

    def _know(self, keys: dict[str, Key]) -> None:
        self._by_name = keys
        self._by_digest = {secret.digest: secret for key in keys.values() for secret in _secrets(key)}

    def digest(self, secret: bytes) -> bytes:
        return digest(self._store_secret, secret)

    def find(self, secret: bytes) -> Key | None:
        """The key with this secret, which is thereby used."""
        presented = self.digest(secret)
        known = self._by_digest.get(presented)
        if known is None or not hmac.compare_digest(known.digest, presented):
            return None
        now = self._clock()
        if now >= known.until:
            return None
        self._uses[presented] = now
        return known.key

    def why_refused(self, secret: bytes) -> tuple[str, str]:
        """What the holder of a secret that `find` does not find may be told, and for the log, what was sent."""
        known = self._presented(secret)
        if known is None:
            return "this API key is not known", "an unknown or revoked API key"
        if known.key.state(self._clock()) is KeyState.EXPIRED:
            return "this API key has expired", f"the API key {known.key.name}, which has expired"
        return (
            "this API key has another secret now, and this one is no longer good",
            f"an old secret of the API key {known.key.name}",
        )

    def _presented(self, secret: bytes) -> Known | None:
        presented = self.digest(secret)
        known = self._by_digest.get(presented)
        return known if known is not None and hmac.compare_digest(known.digest, presented) else None

    def find_named(self, name: str) -> Key | None:
        """The name of a key is also its access key id. It proves nothing."""
        key = self._by_name.get(name)
        return None if key is None or key.state(self._clock()) is not KeyState.IN_FORCE else key

    def has_expired(self, name: str) -> bool:
        key = self._by_name.get(name)
        return key is not None and key.state(self._clock()) is KeyState.EXPIRED

    def good_digests(self, key: Key) -> tuple[bytes, ...]:
        return key.good_digests(self._clock())

    def note_use(self, digest: bytes) -> None:
        """Of a secret that was proven in another way than by `find`."""
        self._uses[digest] = self._clock()

    def last_used_at(self, known: Key | OldSecret) -> int | None:
        """As the store knows it, or as this process knows better already."""
        digests = [known.digest, known.old.digest] if isinstance(known, Key) and known.old else [known.digest]
        return max((known.last_used_at or 0, *(self._uses.get(digest, 0) for digest in digests))) or None

    def now(self) -> int:
        """By the clock that decides what has expired."""
        return self._clock()

    def take_uses(self) -> list[KeyUse]:
        """What was used since they were last taken."""
        uses, self._uses = self._uses, {}
        found = ((self._by_digest.get(digest), at) for digest, at in uses.items())
        return [KeyUse(known.key.name, known.digest, at) for known, at in found if known is not None]

    def put_back_uses(self, uses: Iterable[KeyUse]) -> None:
        """They could not be kept."""
        self._uses = {**{use.digest: use.used_at for use in uses}, **self._uses}

    def derive(self, purpose: bytes) -> bytes:
        """A secret for one purpose that every process of every server on the store has, and that is stored nowhere.
        With a pepper, the store is not enough to compute it: no one can forge sessions of the console with a backup."""
        return hmac.digest(self._store_secret + self._pepper.encode(), b"penstock " + purpose, "sha256")

    def aws_secret(self, key: Key) -> str:
        return aws_secret(self._store_secret, self._pepper, key.digest)

    def verify_signature(self, key: Key, signature: sigv4.Signature, text: bytes) -> bool:
        """Whether a signature was made of this string to sign, with a secret of this key, which is thereby used."""
        for digest in self.good_digests(key):
            if self._verify_with(digest, signature, text):
                self.note_use(digest)
                return True
        return False

    def _verify_with(self, digest: bytes, signature: sigv4.Signature, text: bytes) -> bool:
        wanted = digest, signature.terms.scope
        kept = self._signing_keys.get(wanted)
        secret = aws_secret(self._store_secret, self._pepper, digest) if kept is None else ""
        signing_key = kept or sigv4.signing_key(secret, signature.terms)
        signed = sigv4.is_signed(signature, signing_key, text)
        # Anybody can make up scopes: those that were never signed for would push out those in use.
        if signed and kept is None:
            if len(self._signing_keys) >= _SIGNING_KEYS_KEPT:
                self._signing_keys.clear()
            self._signing_keys[wanted] = signing_key
        return signed


def _secrets(key: Key) -> Iterator[Known]:
    end = _FOREVER if key.expires_at is None else key.expires_at
    if key.old is not None:
        yield Known(key, key.old.digest, end if key.old.until is None else min(end, key.old.until))
    yield Known(key, key.digest, end)
