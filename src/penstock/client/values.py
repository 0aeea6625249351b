"""What goes to a server and what comes back. Instants are milliseconds since the epoch.

Dataclasses, not the core's structs: the client needs nothing but Python. One file because they are one vocabulary:
those who write a program look them up together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Required, TypeAlias, TypedDict

# What can be sent: bytes as they are, text as UTF-8, and whatever JSON can say as JSON.
Body: TypeAlias = bytes | bytearray | memoryview | str | dict[str, Any] | list[Any] | int | float | bool | None


class Redrive(TypedDict):
    max_receives: int
    dead_letter_queue: str


class Backoff(TypedDict):
    first_ms: int
    most_ms: int


class Settings(TypedDict, total=False):
    """What may be set on a queue; whatever is left out keeps its value. `groups` is chosen when the queue is created.
    Of `labels`, those that are named change, and None removes one."""

    visibility_ms: int
    retention_ms: int
    delay_ms: int
    dedup: Literal["off", "send", "claim", "window"]
    redrive: Redrive | None
    ledger: Literal["off", "outcomes", "bodies"]
    backoff: Backoff | None
    groups: Literal["off", "fifo"]
    dedup_window_ms: int
    dedup_scope: Literal["queue", "group"]
    labels: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Count:
    """`total` is exact. Unless `exact`, `delayed` and `claimed` are lower bounds, `ready` an upper one. The oldest
    message is told in any state, and among those that are ready."""

    total: int
    ready: int
    delayed: int
    claimed: int
    exact: bool
    oldest_sent_at: int | None
    oldest_ready_sent_at: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Since the queue was created: how many messages have arrived in it, and how many have left it again."""

    arrived: int
    departed: int


@dataclass(frozen=True, slots=True)
class Queue:
    """`count` is there when the queue was asked for by its name or listed, `tally` in the first case only.
    `modified_at` is when its settings were last changed; None where the server is too old to tell. `paused_at` is since
    when claims find nothing in it; None unless it is paused."""

    name: str
    created_at: int
    settings: Settings
    count: Count | None = None
    tally: Tally | None = None
    modified_at: int | None = None
    paused_at: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a server: the only one, or an edge or the committer among several. `requests`, `units`, `operations`
    and `cpu_s` count on when a process is replaced."""

    name: str
    pid: int
    cpu_s: float
    memory_bytes: int
    connections: int
    requests: int
    waiting_claims: int
    units: int
    operations: int


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """`store` is the kind of store, such as `sqlite`. `compiled` says whether what every request passes through runs
    compiled, and `began_at` when the server has started."""

    version: str
    store: str
    compiled: bool
    began_at: int


@dataclass(frozen=True, slots=True)
class Totals:
    """How often each thing has happened in a queue, on all servers of its store."""

    sent: int
    claimed: int
    redelivered: int
    acked: int
    expired: int
    dead_lettered: int
    failed: int
    purged: int
    moved: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A queue of an overview. Unless `exact`, `delayed` and `claimed` are lower bounds, `ready` an upper one.
    `takes_dead_letters` says whether it is the dead-letter queue of another. The last two are those of the last 60
    minutes, the oldest first, and empty unless they were asked for."""

    name: str
    ready: int
    delayed: int
    claimed: int
    total: int
    exact: bool
    oldest_ready_sent_at: int | None
    oldest_ready_ms: int | None
    sends_per_second: float
    acks_per_second: float
    totals: Totals
    takes_dead_letters: bool
    paused_at: int | None = None
    sent_by_minute: list[int] = field(default_factory=list)
    acked_by_minute: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OverviewSums:
    """Of all queues that an overview has found, on whichever page they stand."""

    ready: int
    delayed: int
    claimed: int
    total: int
    sends_per_second: float
    acks_per_second: float
    dead_lettered: int
    paused: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of queues; `total` is how many were found."""

    total: int
    sums: OverviewSums
    as_of: int
    rows: list[OverviewRow]


@dataclass(frozen=True, slots=True)
class History:
    """A queue over the last hour or day, in columns: one number each for every bucket of time, the oldest first.
    `since` is when each bucket begins. What was in the queue is None where that is not known."""

    span: Literal["hour", "day"]
    bucket_ms: int
    since: list[int]
    ready: list[int | None]
    delayed: list[int | None]
    claimed: list[int | None]
    oldest_ready_ms: list[int | None]
    sent: list[int]
    claims: list[int]
    redelivered: list[int]
    acked: list[int]
    expired: list[int]
    dead_lettered: list[int]
    failed: list[int]
    purged: list[int]
    moved: list[int]
    collapsed: list[int]


@dataclass(frozen=True, slots=True)
class RegisteredConsumer:
    """A consumer of gq, and how many messages it holds. `beat_at` was its last sign of life."""

    id: str
    delivery: Literal["at_least_once", "at_most_once"]
    beat_at: int
    dead_after_ms: int
    held: int


@dataclass(frozen=True, slots=True)
class Workers:
    """Who works on a queue: claims that wait in the process that has answered, consumers of gq, and open shipments."""

    waiting_claims: int
    consumers: list[RegisteredConsumer]
    shipments: list[Shipment]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a store has given back to the file system, and what it still holds and does not use; None where a database
    server keeps it."""

    returned_bytes: int
    unused_bytes: int | None


@dataclass(frozen=True, slots=True)
class OldSecret:
    """The secret that a key had before it was rotated: it is good `until` an instant, or until it is retired."""

    until: int | None = None
    last_used_at: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its secret. Its `state` is `in force`, `expired` or `revoked`. `revoked_at` is None where it
    was not revoked, `expires_at` where it never expires, `rotated_at` where it has its first secret, and `old_secret`
    where it has one secret only. `last_used_at` may be told a minute late, or two."""

    name: str
    rules: list[str]
    created_at: int
    revoked_at: int | None = None
    expires_at: int | None = None
    state: str = "in force"
    last_used_at: int | None = None
    rotated_at: int | None = None
    old_secret: OldSecret | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made, or rotated. The `secret` is told this once, and is in no representation. `warning` is there
    for the first key of a store: from then on every request needs one. The next two are what clients of SQS sign their
    requests with; they too are told this once. `old_secret` is there where it was rotated and the one before is good as
    well."""

    name: str
    rules: list[str]
    created_at: int
    secret: str = field(repr=False)
    warning: str | None = None
    aws_access_key_id: str | None = None
    aws_secret_access_key: str | None = field(default=None, repr=False)
    expires_at: int | None = None
    old_secret: OldSecret | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to send. Text travels as UTF-8; a dict, list, number, bool or None as JSON, and its `content_type` is
    then `application/json` unless it says otherwise. `group` says to which others it belongs, `dedup_id` what makes it
    a twin of others."""

    body: Body
    content_type: str | None = None
    attributes: Mapping[str, str] | None = None
    delay_ms: int | None = None
    group: str | None = None
    dedup_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """`id` is the message's, or its earlier twin's when `stored` is False."""

    id: str
    stored: bool


@dataclass(frozen=True, slots=True)
class SentCounts:
    """Of a send in bulk: how many messages it had, how many of them are stored (twins are not), and whether a send with
    the same key was carried out before, so that nothing was stored now."""

    count: int
    stored: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """`ready_at` is the end of its claim or delay, 0 when it is ready. `came_from` is the queue in which a dead letter
    could not be dealt with. `first_claimed_at` is of this queue. `behind` says, of one that was peeked at, that others
    of its group are before it. Of one that was found by a filter or by its id, there are also its `state`, whether it
    is `shipped`, the number of its latest `claim`, and `last_claimed_at`."""

    id: str
    queue: str
    body: bytes
    content_type: str | None
    attributes: dict[str, str] = field(default_factory=dict)
    sent_at: int = 0
    ready_at: int = 0
    receives: int = 0
    came_from: str | None = None
    group: str | None = field(default=None, kw_only=True)
    first_claimed_at: int | None = field(default=None, kw_only=True)
    behind: bool = field(default=False, kw_only=True)
    state: Literal["ready", "delayed", "claimed"] | None = field(default=None, kw_only=True)
    shipped: bool | None = field(default=None, kw_only=True)
    claim: int | None = field(default=None, kw_only=True)
    last_claimed_at: int | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as a JSON value, whatever its content type. Raises ValueError where it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ClaimedMessage(Message):
    """`receipt` proves the claim: ack, renew or release the message with it."""

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Peeked:
    """`after` is where the next peek goes on, None past the end. With a filter, `examined` is how many messages were
    looked at."""

    messages: list[Message]
    after: str | None
    examined: int | None = None


Dealing = Literal["done", "missing", "shipped", "homeless", "twin"]


@dataclass(frozen=True, slots=True)
class Resent:
    """`id` is that of the new message where `outcome` is `done`; where it is `twin`, that of the message that kept the
    new one from being stored. Else nothing has happened."""

    outcome: Dealing
    id: str | None


class JsonEquals(TypedDict):
    """`path` is such as `$.order.lines[0]`; `value` is text, a number, a boolean or None."""

    path: str
    value: str | int | float | bool | None


class AttributeEquals(TypedDict, total=False):
    """Without a `value`, the attribute may have any."""

    name: Required[str]
    value: str


class MessageFilter(TypedDict, total=False):
    """Which messages are meant: those for which all that is given holds."""

    older_than_ms: int
    newer_than_ms: int
    min_receives: int
    max_receives: int
    content_type: str
    text: str
    json: JsonEquals
    state: Literal["ready", "delayed", "claimed"]
    attribute: AttributeEquals


class TaskTerms(MessageFilter, total=False):
    """Which messages are deleted or released, how many, how fast, or only counted."""

    limit: int
    per_second: int
    dry_run: bool
    claimed: bool


class MoveTerms(TaskTerms, total=False):
    """Which messages move: those for which all that is given holds; and how many, how fast, or only counted. What is
    claimed stays without `claimed`. With `as_new`, they arrive as if they were sent then; without, with their id and
    age."""

    as_new: bool


@dataclass(frozen=True, slots=True)
class Move:
    """`action` is what becomes of the messages: `move`, `delete` or `release`; `moved` counts those that have been
    dealt with so. `target` is None where dead letters go home. `total` is how many messages the source held at the
    start. Of these `examined` were looked at, of which `matched` are meant; `homeless` ones of them came from no queue
    that is there, and stay."""

    id: str
    source: str
    target: str | None
    status: Literal["in-progress", "complete", "error", "cancelled"]
    examined: int
    matched: int
    moved: int
    homeless: int
    started_at: int
    finished_at: int | None = None
    error: str | None = None
    filter: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    per_second: int | None = None
    dry_run: bool = False
    as_new: bool = False
    total: int = 0
    action: Literal["move", "delete", "release"] = "move"
    claimed: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status != "in-progress"


@dataclass(frozen=True, slots=True)
class ShipmentRef:
    """Which shipment is meant: that of this number, of this consumer, from this queue."""

    queue: str
    consumer: str
    number: int


@dataclass(frozen=True, slots=True)
class Shipment:
    """`until` is when it is lost unless a heartbeat comes before. `ended_at` is None while it is in progress.
    `stored_in` is where its consumer has stored the messages, if it said so when it settled them."""

    queue: str
    consumer: str
    number: int
    state: Literal["open", "gathering", "settled", "released", "lost"]
    messages: int
    bytes: int
    claimed_at: int
    until: int
    ended_at: int | None = None
    stored_in: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.state not in ("open", "gathering")

    @property
    def ref(self) -> ShipmentRef:
        return ShipmentRef(self.queue, self.consumer, self.number)


@dataclass(frozen=True, slots=True)
class Lease:
    """That `holder` has it since `taken_at`, and `until` an instant unless it takes it again."""

    queue: str
    name: str
    holder: str
    taken_at: int
    until: int


@dataclass(frozen=True, slots=True)
class ExportRef:
    """Which export of the ledger is meant: that of this number, of this consumer."""

    consumer: str
    number: int


@dataclass(frozen=True, slots=True)
class Export:
    """The `rows` of the ledger numbered above `after` through `through`. `settled_at` is None until it is settled."""

    consumer: str
    number: int
    after: int
    through: int
    rows: int
    claimed_at: int
    settled_at: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.settled_at is not None

    @property
    def ref(self) -> ExportRef:
        return ExportRef(self.consumer, self.number)


class LedgerFilter(TypedDict, total=False):
    """Rows for which all that is given holds: of queues that had this name, of this message, finished at `since` or
    later, finished before `before`."""

    queue: str | None
    id: str | None
    since: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What became of a message. `body_hash` is the SHA-256 of its body in hexadecimal; `body` is there where the ledger
    of its queue keeps bodies."""

    number: int
    queue: str
    id: str
    sent_at: int
    first_claimed_at: int | None
    last_claimed_at: int | None
    finished_at: int
    receives: int
    outcome: Literal["processed", "expired", "dead-lettered", "failed", "purged", "moved", "collapsed"]
    size: int
    body_hash: str
    content_type: str | None
    body: bytes | None = None


class ActionFilter(TypedDict, total=False):
    """Actions for which all that is given holds: on queues that had this name, by the API key of this name, of this
    kind, done at `since` or later, done before `until`."""

    queue: str | None
    key: str | None
    what: str | None
    since: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody has done who looks after queues and keys. `key` is the name of the API key, None where there were
    none, and `via` the API; `what` is such as `queue.purge`, and `count` how many messages it was done to."""

    number: int
    at: int
    key: str | None
    via: str
    what: str
    queue: str | None = None
    count: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class LatestRows:
    """The latest first. `examined` were looked at; `below` is where to go on, None past the oldest row."""

    rows: list[LedgerRow]
    examined: int
    below: int | None
