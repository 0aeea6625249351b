"""API keys through the client."""

from __future__ import annotations

import pytest

from penstock.client import KeyExists, KeyNotFound, Unauthorized


def test_the_life_of_a_key(server, connect):
    with connect(server.url) as client:
        assert client.keys() == []
        first = client.create_key("all", ["queue|*|*"])
        assert (first.name, first.rules) == ("all", ["queue|*|*"])
        assert "first API key" in first.warning
        assert first.secret not in repr(first)
        assert (first.aws_access_key_id, len(first.aws_secret_access_key)) == ("all", 43)
        assert first.aws_secret_access_key not in repr(first)
        with pytest.raises(Unauthorized):
            client.keys()
    with connect(server.url, first.secret) as client:
        second = client.create_key("some", ["queue|poll|jobs"])
        assert second.warning is None
        with pytest.raises(KeyExists):
            client.create_key("some", ["queue|poll|jobs"])
        client.revoke_key("some")
        client.revoke_key("some")
        found = client.keys()
        assert [(key.name, key.revoked_at is None) for key in found] == [("all", True), ("some", False)]
        with pytest.raises(KeyNotFound):
            client.revoke_key("none")
