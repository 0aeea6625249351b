"""What travels between an edge and the committer: calls of the broker's verbs one way, and what came of them the other.

A frame holds all that one iteration of the event loop has gathered. Sends, claims and acks have lists of their own,
which are encoded and decoded as a whole; every other verb is called by its name, with arguments in the types of
`broker/protocol.py`. Each call has a number, which its answer bears again.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, msgpack

from penstock.model import Draft, Message, Receipt, Sent, Settings


class SendCall(Struct, array_like=True, gc=False):
    number: int
    queue: str
    drafts: list[Draft]
    create_as: Settings | None


class ClaimCall(Struct, array_like=True, gc=False):
    number: int
    queue: str
    limit: int
    hold_ms: int | None
    wait_ms: int
    attempt: str | None


class AckCall(Struct, array_like=True, gc=False):
    number: int
    receipts: list[Receipt]


class VerbCall(Struct, array_like=True):
    number: int
    verb: str
    arguments: Raw


class Calls(Struct, array_like=True, forbid_unknown_fields=True):
    """`called_off` are claims whose callers have gone."""

    sends: list[SendCall]
    claims: list[ClaimCall]
    acks: list[AckCall]
    verbs: list[VerbCall]
    called_off: list[int]


class SendAnswer(Struct, array_like=True, gc=False):
    number: int
    sent: list[Sent]


class ClaimAnswer(Struct, array_like=True, gc=False):
    number: int
    messages: list[Message]


class AckAnswer(Struct, array_like=True, gc=False):
    number: int
    acked: list[bool]


class VerbAnswer(Struct, array_like=True):
    number: int
    value: Raw


class Failure(Struct, array_like=True):
    """An error by the name of its class, with its text and what else it knows. See `failures.py`."""

    number: int
    kind: str
    text: str
    facts: dict[str, Any]


class Answers(Struct, array_like=True, forbid_unknown_fields=True):
    sent: list[SendAnswer]
    claimed: list[ClaimAnswer]
    acked: list[AckAnswer]
    verbs: list[VerbAnswer]
    failed: list[Failure]


_encoder = msgpack.Encoder()
encode = _encoder.encode
encode_into = _encoder.encode_into
decode_calls = msgpack.Decoder(Calls).decode
decode_answers = msgpack.Decoder(Answers).decode
