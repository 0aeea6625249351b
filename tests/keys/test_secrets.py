"""The secret of a key is shown once; what is stored is worth nothing to a thief."""

from __future__ import annotations

import base64
import hashlib
import hmac

from penstock import keys
from penstock.keys import Keyring
from penstock.model import Key
from tests.keys.conftest import KeyStore


def test_secrets_are_long_random_and_known_by_their_prefix() -> None:
    minted = {keys.mint() for _ in range(100)}
    assert len(minted) == 100
    for secret in minted:
        assert secret.startswith("psk_")
        assert len(secret) >= 4 + 43
        assert secret.isascii()
        assert secret.isprintable()


def test_the_hash_is_keyed_with_the_secret_of_the_store() -> None:
    expected = hmac.new(b"store", b"secret", hashlib.sha256).digest()
    assert keys.digest(b"store", b"secret") == expected
    assert keys.digest(b"other store", b"secret") != expected
    assert keys.digest(b"store", b"secret ") != expected


def test_a_keyring_knows_the_keys_that_are_not_revoked() -> None:
    good = Key("good", keys.digest(b"s", b"1"), ("queue|*|*",), 0)
    revoked = Key("revoked", keys.digest(b"s", b"2"), ("queue|*|*",), 0, 5)
    ring = Keyring(b"s", [good, revoked])
    assert ring.find(b"1") is good
    assert ring.find(b"2") is None
    assert ring.find(b"") is None
    assert ring.find(good.digest) is None


def test_a_keyring_asks_for_keys_as_soon_as_there_ever_was_one() -> None:
    ring = Keyring(b"s")
    assert not ring.asks_for_keys
    ring.load([Key("k", b"d", (), 0, revoked_at=1)])
    assert ring.asks_for_keys


def test_the_same_key_in_another_store_is_another(tmp_path) -> None:
    digests = set()
    for name in ("a", "b"):
        store = KeyStore(tmp_path / name)
        store.create("k", "queue|*|*")
        digests.add(stored_digest(store))
    assert len(digests) == 2


def stored_digest(key_store: KeyStore) -> bytes:
    from penstock.stores import open_store

    store = open_store(key_store.url)
    with store.unit(write=False) as unit:
        [key] = unit.keys.list()
    store.close()
    return key.digest


def test_the_secret_is_nowhere_in_the_files_of_the_store(key_store: KeyStore) -> None:
    secret = key_store.create("k", "queue|post|canary-*").encode()
    key_store.create("another", "queue|*|*")
    key_store.revoke("k")
    files = list(key_store.path.parent.iterdir())
    stored = b"".join(file.read_bytes() for file in files)
    assert b"canary-*" in stored
    for form in (secret, secret.removeprefix(b"psk_"), hashlib.sha256(secret).digest(), secret[8:32]):
        assert form not in stored


def test_what_is_signed_with_is_nowhere_in_the_files_of_the_store(key_store: KeyStore) -> None:
    key_store.create("k", "queue|post|canary-*")
    files = list(key_store.path.parent.iterdir())
    stored = b"".join(file.read_bytes() for file in files)
    for pepper in ("", "a pepper of 20 chars"):
        secret = key_store.aws_secret("k", pepper)
        for form in (secret.encode(), base64.urlsafe_b64decode(f"{secret}="), pepper.encode() or b"\0pepper"):
            assert form not in stored
