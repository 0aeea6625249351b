"""The nouns: queues and their settings, messages on their way in and out, and what became of them.

Plain values without behaviour. They are msgspec structs because thousands are made a second: one costs
a sixth of a frozen dataclass. One file because they are one vocabulary: stores, broker and faces speak in these.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits


class Dedup(IntEnum):
    """What a queue does about two messages with the same key."""

    OFF = 0
    SEND = 1  # the later one is not stored while the earlier one is in the queue
    CLAIM = 2  # both are stored; a claim hands out one and takes its ready twins along
    WINDOW = 3  # the later one is not stored for a while after the first was sent, be that in the queue or gone


class DedupScope(IntEnum):
    """Where two messages with the same key are twins: in a queue with `Dedup.WINDOW`."""

    QUEUE = 0
    GROUP = 1


class Groups(IntEnum):
    """What a queue makes of the groups of its messages."""

    OFF = 0  # a group is a word that travels with the message
    FIFO = 1  # those of a group are handed out in their order: none while one before it is claimed or delayed


class LedgerMode(IntEnum):
    """What a queue remembers of a finished message."""

    OFF = 0
    OUTCOMES = 1
    BODIES = 2


class Outcome(IntEnum):
    """How a message left its queue."""

    PROCESSED = 1
    EXPIRED = 2
    DEAD_LETTERED = 3
    FAILED = 4
    PURGED = 5
    MOVED = 6
    COLLAPSED = 7


class Redrive(Struct, frozen=True):
    """After `max_receives` deliveries a message goes to `dead_letter_queue` instead."""

    max_receives: int
    dead_letter_queue: str


class Backoff(Struct, frozen=True):
    """How long a message waits after a claim in vain: `first_ms` after the first, twice as long after each further one,
    and never longer than `most_ms`."""

    first_ms: int
    most_ms: int


class Settings(Struct, frozen=True, kw_only=True):
    visibility_ms: int = 30_000
    retention_ms: int = limits.DURATION_MS
    delay_ms: int = 0
    dedup: Dedup = Dedup.OFF
    redrive: Redrive | None = None
    ledger: LedgerMode = LedgerMode.OUTCOMES
    backoff: Backoff | None = None
    groups: Groups = Groups.OFF
    dedup_window_ms: int = 300_000
    dedup_scope: DedupScope = DedupScope.QUEUE
    labels: dict[str, str] = {}


class QueueChange(Struct, frozen=True, kw_only=True):
    """New values for some settings; what is left out stays as it is. With `keeps_dedup`, a queue that deduplicates
    already keeps its kind, unless it is to stop. Of `labels`, those that are named change, and None removes one."""

    visibility_ms: int | UnsetType = UNSET
    retention_ms: int | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    dedup: Dedup | UnsetType = UNSET
    redrive: Redrive | UnsetType | None = UNSET
    ledger: LedgerMode | UnsetType = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    groups: Groups | UnsetType = UNSET
    dedup_window_ms: int | UnsetType = UNSET
    dedup_scope: DedupScope | UnsetType = UNSET
    labels: dict[str, str | None] | UnsetType = UNSET
    keeps_dedup: bool = False


class Queue(Struct, frozen=True):
    """`number` is the store's own; it is never used again after the queue is deleted. `modified_at` is when its
    settings were last changed. `paused_at` is since when nothing is claimed from it: None where it is not paused."""

    number: int
    name: str
    created_at: int
    settings: Settings
    modified_at: int = 0
    paused_at: int | None = None


class QueuePage(Struct, frozen=True):
    total: int
    queues: list[Queue]


class Draft(Struct, frozen=True, gc=False, array_like=True):
    """A message as a caller hands it in. `dedup_key` replaces the hash of the body where it is given."""

    body: bytes
    content_type: str | None = None
    attributes: dict[str, str] | None = None
    delay_ms: int | None = None
    deadline_at: int | None = None
    dedup_key: bytes | None = None
    group: str | None = None


class Sent(Struct, frozen=True, gc=False):
    """`id` is the message's, or its earlier twin's when `stored` is False."""

    id: str
    stored: bool


class Message(Struct, frozen=True, gc=False, array_like=True):
    """A message as it is handed out. `ready_at` is the end of its claim or delay, 0 when ready, and `limits.BEHIND`
    while it waits behind another of its group."""

    id: str
    seq: int
    queue: str
    body: bytes
    content_type: str | None
    attributes: dict[str, str] | None
    sent_at: int
    ready_at: int
    receives: int
    claim: int
    deadline_at: int | None
    # The queue that a dead letter was received from in vain.
    came_from: str | None = None
    group: str | None = None
    first_claimed_at: int | None = None


class MessageState(StrEnum):
    """What a message is waiting for: `policy.state` decides. One behind another of its group counts as ready, and one
    in a shipment as claimed."""

    READY = "ready"
    DELAYED = "delayed"
    CLAIMED = "claimed"


class Found(Struct, frozen=True):
    """A message that was looked for, as it is at one instant, in any state. `shipped` says that it is in a shipment,
    which alone may end its claim."""

    message: Message
    state: MessageState
    last_claimed_at: int | None = None
    shipped: bool = False


class Scan(Struct, frozen=True):
    """Messages that were looked for in a queue: `examined` says how many were looked at, `after` where to go on, None
    past the end, and `read` how many bytes of bodies and attributes were read."""

    messages: list[Found]
    examined: int
    after: PeekAfter | None
    read: int = 0


class Dealing(StrEnum):
    """What has become of one of the messages that a caller has named."""

    DONE = "done"
    MISSING = "missing"  # it is not in this queue, or not any more
    SHIPPED = "shipped"  # it is in a shipment, which alone may end it
    HOMELESS = "homeless"  # it stays, because the queue it came from does not exist
    TWIN = "twin"  # it stays, because what was sent in its place is the twin of another and was not stored


class Resent(Struct, frozen=True):
    """What has become of a message in whose place another was to be sent. `id` is that of the new one; where `dealing`
    is TWIN, of the message that kept it from being stored; else None."""

    dealing: Dealing
    id: str | None = None


class Claimed(Struct, frozen=True):
    """`more` says that the claim stopped at a limit of one unit, not at the end of the queue."""

    messages: list[Message]
    more: bool = False


class Receipt(Struct, frozen=True, gc=False, array_like=True):
    """A message, and the claim on it that the holder believes to have.

    Without a `claim` the message is meant whichever claim holds it; without a `queue`, wherever it is.
    """

    id: str
    claim: int | None = None
    queue: str | None = None


class Delivery(StrEnum):
    """What becomes of the messages that a lost consumer held."""

    AT_LEAST_ONCE = "at_least_once"  # they are handed out again
    AT_MOST_ONCE = "at_most_once"  # they have failed


class Registration(Struct, frozen=True):
    """A consumer that is known to the store: its claims last as long as its signs of life, each of which counts for
    `dead_after_ms`."""

    id: str
    queue: str
    delivery: Delivery
    dead_after_ms: int


# A message and a claim on it, by their numbers.
Held = tuple[int, int]


class Ending(Struct, frozen=True):
    """What becomes of messages that a consumer holds: they finish with an outcome; where that is None, they are ready
    again after `delay_ms`."""

    held: Collection[Held]
    outcome: Outcome | None
    delay_ms: int = 0


class Attendance(Struct, frozen=True):
    """A consumer that has come to the store. `held` is what it holds, None when it is not registered; `ended` those
    claims of each ending that it had; `living` the consumers of its queue, in the order of their registration."""

    held: set[Held] | None
    ended: list[set[Held]]
    living: list[str]


class Reservation(Struct, frozen=True):
    """Sequence numbers for messages that are sent later, and the origin that is part of their ids."""

    origin: str
    seqs: list[int]


class Numbered(Struct, frozen=True, gc=False):
    """A message that had its number, and so its id, before it was stored."""

    seq: int
    sent_at: int
    draft: Draft


class Trace(Struct, frozen=True):
    """Where a message is: `outcome` is how it left its last queue, None while it is in one."""

    outcome: Outcome | None
    claimed: bool = False


class Count(Struct, frozen=True):
    """`total` is exact. The parts are exact while `exact` holds; past the limit they are lower bounds of
    `delayed` and `claimed`, and `ready` is what is left. The oldest message is told in any state, and among those
    that are ready."""

    total: Annotated[int, Meta(description="exact at any depth")]
    ready: int
    delayed: int
    claimed: int
    exact: Annotated[bool, Meta(description="whether the parts are; else `delayed` and `claimed` are lower bounds")]
    oldest_sent_at: Annotated[
        int | None, Meta(description="of the oldest message in any state; null in an empty queue")
    ] = None
    oldest_ready_sent_at: Annotated[
        int | None, Meta(description="of the oldest ready message; null where none is ready")
    ] = None


class CountedPage(Struct, frozen=True):
    """A page of queues, and the count of each."""

    page: QueuePage
    counts: list[Count]


class PeekAfter(Struct, frozen=True):
    """Where a peek left off: the `ready_at` and `seq` of the last message it showed."""

    ready_at: int
    seq: int


class Purged(Struct, frozen=True):
    """What one step of a purge by age has done; `after` is where the next goes on, None past the end."""

    count: int
    after: PeekAfter | None


class LedgerRow(Struct, frozen=True, gc=False):
    """What became of one message in one queue."""

    number: int
    queue: str
    id: str
    sent_at: int
    first_claimed_at: int | None
    last_claimed_at: int | None
    finished_at: int
    receives: int
    outcome: Outcome
    size: int
    body_hash: bytes
    content_type: str | None
    body: bytes | None


class LedgerFilter(Struct, frozen=True):
    """Which rows of the ledger are wanted: of a queue by its name, of a message by its id, finished `since` an instant
    and `before` another."""

    queue: str | None = None
    id: str | None = None
    since: int | None = None
    before: int | None = None


class LedgerScan(Struct, frozen=True):
    """Rows of the ledger, the latest first: `examined` says how many were looked at, and `below` is the number below
    which to go on, None past the end."""

    rows: list[LedgerRow]
    examined: int
    below: int | None


class OldSecret(Struct, frozen=True):
    """The secret that a key had before it was rotated, which is good as well until an instant, or until it is retired
    where there is none. `last_used_at` is None where it was never used."""

    digest: bytes
    until: int | None = None
    last_used_at: int | None = None

    def is_good(self, now: int) -> bool:
        return self.until is None or now < self.until


class KeyState(StrEnum):
    IN_FORCE = "in force"
    EXPIRED = "expired"
    REVOKED = "revoked"


class Key(Struct, frozen=True):
    """An API key: its secret is kept only as a keyed hash. `rules` are texts such as `queue|post|orders-*`. `ended` are
    sessions of the console that were signed out of before their time. From `expires_at` on it is refused. `rotated_at`
    is when it was given its present secret, None for the first; `last_used_at` when either of its secrets was used, as
    far as that was noted."""

    name: str
    digest: bytes
    rules: tuple[str, ...]
    created_at: int
    revoked_at: int | None = None
    ended: frozenset[str] = frozenset()
    expires_at: int | None = None
    rotated_at: int | None = None
    last_used_at: int | None = None
    old: OldSecret | None = None

    def state(self, now: int) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        is_expired = self.expires_at is not None and self.expires_at <= now
        return KeyState.EXPIRED if is_expired else KeyState.IN_FORCE

    def old_secret(self, now: int) -> OldSecret | None:
        """The one before, while it is good."""
        return self.old if self.old is not None and self.old.is_good(now) else None

    def good_digests(self, now: int) -> tuple[bytes, ...]:
        """Those of its secrets that are good while the key is, the present one first."""
        old = self.old_secret(now)
        return (self.digest,) if old is None else (self.digest, old.digest)


class KeyUse(Struct, frozen=True):
    """That a secret of a key was last used at an instant."""

    name: str
    digest: bytes
    used_at: int


class CreatedKey(Struct, frozen=True):
    """`first` says that the store had no key before: from now on every request needs one."""

    key: Key
    first: bool


class Actor(Struct, frozen=True):
    """Who has something done: by which API key, None where there are no keys, and through which API."""

    key: str | None
    via: str


class ActionKind(StrEnum):
    """What can be done that is not the daily work of messages."""

    QUEUE_CREATE = "queue.create"
    QUEUE_UPDATE = "queue.update"
    QUEUE_DELETE = "queue.delete"
    QUEUE_PAUSE = "queue.pause"
    QUEUE_RESUME = "queue.resume"
    QUEUE_PURGE = "queue.purge"
    CLAIMS_RELEASE = "claims.release"
    MOVE_START = "move.start"
    MOVE_CANCEL = "move.cancel"
    MOVE_END = "move.end"
    MESSAGES_DELETE = "messages.delete"
    MESSAGES_RELEASE = "messages.release"
    MESSAGES_MOVE = "messages.move"
    MESSAGES_RESEND = "messages.resend"
    MESSAGES_SEND = "messages.send"  # by hand, from the console
    KEY_CREATE = "key.create"
    KEY_UPDATE = "key.update"
    KEY_ROTATE = "key.rotate"
    KEY_RETIRE = "key.retire"
    KEY_REVOKE = "key.revoke"
    STORE_SHRINK = "store.shrink"
    CONSOLE_SIGN_IN = "console.sign-in"
    CONSOLE_SIGN_OUT = "console.sign-out"


class Action(Struct, frozen=True):
    """One thing that was done: when, by whom, what, to which queue and to how many messages. `detail` is a short text,
    mostly JSON, and holds neither a secret nor a body."""

    number: int
    at: int
    key: str | None
    via: str
    what: ActionKind
    queue: str | None = None
    count: int | None = None
    detail: str | None = None


class ActionFilter(Struct, frozen=True):
    """Which actions are wanted: on a queue by its name, by an API key by its name, of one kind, done `since` an instant
    and before `until`."""

    queue: str | None = None
    key: str | None = None
    what: ActionKind | None = None
    since: int | None = None
    until: int | None = None


class ProcessReport(Struct, frozen=True):
    """What one process of a server says of itself: the only one, the committer, or an edge."""

    name: str
    pid: Annotated[int, Meta(ge=0, description="0 while it is being replaced")]
    cpu_s: Annotated[float, Meta(ge=0, description="seconds of processor time; counted on when it is replaced")]
    memory_bytes: Annotated[int, Meta(ge=0, description="resident")]
    connections: Annotated[int, Meta(ge=0, description="of clients, now")]
    requests: Annotated[int, Meta(ge=0, description="answered since the server has started")]
    waiting_claims: Annotated[int, Meta(ge=0, description="long polls, now")]
    units: Annotated[int, Meta(ge=0, description="transactions of the store since the server has started")]
    operations: Annotated[int, Meta(ge=0, description="served in these units")]


class MoveStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


class JsonValue(Struct, frozen=True):
    """What stands at a path of a JSON text."""

    path: str
    value: str | int | float | bool | None


class WantedAttribute(Struct, frozen=True, omit_defaults=True):
    """An attribute with this value, or with any where that is None."""

    name: str
    value: str | None = None


class Selection(Struct, frozen=True, omit_defaults=True):
    """Which messages are meant: those for which all that is given holds. Instants and numbers are meant themselves."""

    sent_since: int | None = None
    sent_until: int | None = None
    min_receives: int | None = None
    max_receives: int | None = None
    content_type: str | None = None
    text: str | None = None
    json: JsonValue | None = None
    state: MessageState | None = None
    attribute: WantedAttribute | None = None


class MoveAction(StrEnum):
    """What becomes of the messages that a move means."""

    MOVE = "move"  # they go to its target, or home
    DELETE = "delete"  # they finish as purged
    RELEASE = "release"  # their claims end, and they are ready


class MoveTerms(Struct, frozen=True, omit_defaults=True):
    """Which messages move, how many at most, and how many a second. A dry run only counts them. With `as_new`, they
    arrive as if they were sent then: under a new id, with a new age."""

    selection: Selection = Selection()
    limit: int | None = None
    per_second: int | None = None
    dry_run: bool = False
    as_new: bool = False
    action: MoveAction = MoveAction.MOVE


WHOLE = MoveTerms()


class Ages(Struct, frozen=True):
    """How old messages must be to be moved, and how old at most, at the time the move starts."""

    older_than_ms: int | None = None
    newer_than_ms: int | None = None


ANY_AGE = Ages()


class Move(Struct, frozen=True):
    """Messages of one queue on their way into another, or whatever else the `action` of its terms does to them, in
    steps. `moved` counts those that have been dealt with so. `through` is the last sequence number that
    belongs to it: what is sent to the source later stays there. Without a target each dead letter goes back to the
    queue it came from; `homeless` counts those that cannot. `place` is how far a move that chooses has come, and
    `next_at` when its pace lets it go on. `claimed` says that claimed ones go along. `total` is how many messages the
    source held at the start. `by` is who started it, if that is to be remembered."""

    id: str
    source: str
    target: str | None
    through: int
    started_at: int
    moved: int = 0
    status: MoveStatus = MoveStatus.IN_PROGRESS
    error: str | None = None
    finished_at: int | None = None
    claimed: bool = False
    terms: MoveTerms = WHOLE
    examined: int = 0
    matched: int = 0
    homeless: int = 0
    place: PeekAfter = PeekAfter(1, 0)
    next_at: int = 0
    total: int = 0
    by: Actor | None = None


class ShipmentRef(Struct, frozen=True):
    """Which shipment is meant: the `number`th that a consumer has claimed from a queue."""

    queue: str
    consumer: str
    number: int


class ExportRef(Struct, frozen=True):
    """Which export is meant: the `number`th that a consumer has claimed of the ledger."""

    consumer: str
    number: int


class ShipmentState(StrEnum):
    GATHERING = "gathering"  # its claim has not come to its end
    OPEN = "open"
    SETTLED = "settled"
    RELEASED = "released"
    LOST = "lost"  # no heartbeat came in time


class Shipment(Struct, frozen=True):
    """Messages that were claimed together for one named consumer, and that end together. A consumer's shipments from a
    queue are numbered from 1. It is lost unless a heartbeat comes before `until`."""

    queue: str
    consumer: str
    number: int
    state: ShipmentState
    messages: int
    bytes: int
    claimed_at: int
    until: int
    ended_at: Annotated[int | None, Meta(description="null while it is open")] = None
    stored_in: Annotated[
        str | None, Meta(description="where its consumer has stored the messages, as it said when it settled them")
    ] = None


class ClaimedShipment(Struct, frozen=True):
    """What became of a claim: `repeated` says that the shipment had been claimed before. None where nothing was
    ready."""

    shipment: Shipment | None
    repeated: bool = False


class Lease(Struct, frozen=True):
    """That one holder alone does something in a queue, whatever the name of the lease stands for: from `taken_at` on,
    and until an instant unless it is taken again."""

    queue: str
    name: str
    holder: str
    taken_at: Annotated[int, Meta(description="since when this holder has it without a gap")]
    until: int


class Export(Struct, frozen=True):
    """Rows of the ledger for one named consumer, numbered from 1: those after row `after` through row `through`."""

    consumer: str
    number: int
    after: int
    through: int
    rows: int
    claimed_at: int
    settled_at: Annotated[int | None, Meta(description="null until it is settled")] = None


class ClaimedExport(Struct, frozen=True):
    """What became of a claim: `repeated` says that the export had been claimed before. None where there are no rows
    yet."""

    export: Export | None
    repeated: bool = False


class Counted(Struct, frozen=True):
    """How far the rows of an export that is being claimed have been counted: `rows` of them after row `after`, of which
    `first` is the first, through row `through`."""

    after: int
    first: int
    through: int
    rows: int


class SentOnce(Struct, frozen=True):
    """What became of a send with a key: `repeated` says that it had been stored before."""

    count: int
    stored: Annotated[int, Meta(description="those that were not twins of messages in the queue")]
    repeated: bool = False


class Tally(Struct, frozen=True):
    """Every arrival in a queue is either still there or has departed: arrived = live + departed."""

    arrived: int
    departed: int


class QueueReport(Struct, frozen=True):
    """A queue and what is in it at one instant; the tally only where it was asked for."""

    queue: Queue
    count: Count
    counted_at: int
    tally: Tally | None = None


# Figures of queues

# What has happened in queues, by their numbers: counts in the order of the fields of `Totals`.
Happened = dict[int, list[int]]


class Totals(Struct, frozen=True):
    """How often each thing has happened in a queue. Those from `acked` on stand in the order of `Outcome`."""

    sent: Annotated[int, Meta(description="messages stored by sends; twins that were not stored do not count")] = 0
    claimed: Annotated[int, Meta(description="deliveries, the first and later ones")] = 0
    redelivered: Annotated[int, Meta(description="deliveries but for the first of each message")] = 0
    acked: int = 0
    expired: int = 0
    dead_lettered: Annotated[int, Meta(description="messages that have left for the dead-letter queue")] = 0
    failed: int = 0
    purged: int = 0
    moved: Annotated[int, Meta(description="messages that have left by a move")] = 0
    collapsed: int = 0


class Depths(Struct, frozen=True):
    """What was in a queue at one instant."""

    ready: int
    delayed: int
    claimed: int
    oldest_ready_sent_at: int | None


class Bucket(Struct, frozen=True):
    """What has happened in the queue of a number during the time that begins with `since`, and what was in it when it
    was last looked at in that time; None where it was not."""

    queue: int
    since: int
    totals: Totals
    depths: Depths | None = None


class Span(StrEnum):
    """How far back a history goes: an hour by minutes, or a day by tens of minutes."""

    HOUR = "hour"
    DAY = "day"


class History(Struct, frozen=True):
    """A queue over the last hour or day, in columns: one number each for every bucket, the oldest first. Those of what
    was in the queue are null where that is not known."""

    span: Span
    bucket_ms: int
    since: Annotated[list[int], Meta(description="when each bucket begins")]
    ready: list[int | None]
    delayed: list[int | None]
    claimed: list[int | None]
    oldest_ready_ms: Annotated[
        list[int | None], Meta(description="age of the oldest ready message; null where none was ready")
    ]
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


class OverviewSort(StrEnum):
    """By what the rows of an overview stand."""

    NAME = "name"
    READY = "ready"
    DELAYED = "delayed"
    CLAIMED = "claimed"
    TOTAL = "total"
    OLDEST = "oldest"
    SENDS = "sends"
    ACKS = "acks"
    DEAD_LETTERS = "dead_letters"
    PAUSED = "paused"


class OverviewQuery(Struct, frozen=True, kw_only=True):
    """Which queues an overview shows, and in which order. Where `descending` is None, names ascend and numbers descend,
    so that the oldest and the most come first. `contains` is a part of the name, in capitals or not. Without `sparks`,
    the spark lines are left out. With `kept`, totals are those that the store has: they are a few seconds old, and no
    process that is killed takes any of them back."""

    sort: OverviewSort = OverviewSort.OLDEST
    descending: bool | None = None
    contains: str = ""
    dead_letter_queues: bool = False
    offset: int = 0
    limit: int = 100
    sparks: bool = True
    kept: bool = False


ALL_QUEUES = OverviewQuery()


class OverviewRow(Struct, frozen=True):
    """One queue of an overview."""

    name: str
    ready: int
    delayed: int
    claimed: int
    total: int
    exact: Annotated[bool, Meta(description="whether the parts are; else `delayed` and `claimed` are lower bounds")]
    oldest_ready_sent_at: int | None
    oldest_ready_ms: Annotated[int | None, Meta(description="age of the oldest ready message; null where none is")]
    sends_per_second: float
    acks_per_second: float
    totals: Totals
    takes_dead_letters: Annotated[bool, Meta(description="whether it is the dead-letter queue of another")]
    paused_at: Annotated[int | None, Meta(description="null unless it is paused")] = None
    sent_by_minute: Annotated[list[int], Meta(description="sends of the last 60 minutes, the oldest first")] = []
    acked_by_minute: Annotated[list[int], Meta(description="acks of the last 60 minutes, the oldest first")] = []


class OverviewSums(Struct, frozen=True):
    """Of all queues that an overview has found, on whichever page they stand."""

    ready: int = 0
    delayed: int = 0
    claimed: int = 0
    total: int = 0
    sends_per_second: float = 0.0
    acks_per_second: float = 0.0
    dead_lettered: int = 0
    paused: int = 0


class Overview(Struct, frozen=True):
    """A page of an overview; `total` is how many queues were found."""

    total: int
    sums: OverviewSums
    as_of: int
    rows: list[OverviewRow]


class ConsumerReport(Struct, frozen=True):
    """A consumer that is registered with a queue (gq), and how many messages it holds."""

    id: str
    delivery: Delivery
    beat_at: Annotated[int, Meta(description="its last sign of life")]
    dead_after_ms: int
    held: int


class Workers(Struct, frozen=True):
    """Who works on a queue: claims that wait for a message in this process, consumers that are registered, and
    shipments that are open."""

    waiting_claims: int
    consumers: list[ConsumerReport]
    shipments: list[Shipment]


class Sizes(Struct, frozen=True):
    """How much a store takes; None where it cannot be told."""

    store_bytes: int | None = None
    log_bytes: int | None = None
    free_bytes: int | None = None
    # Inside the store, and of no use to it now.
    unused_bytes: int | None = None
    # Whether it can give those back without being rebuilt.
    shrinks: bool = False


class LedgerSize(Struct, frozen=True):
    """How much the ledger holds, as far as it was counted, and when its oldest row finished."""

    rows: int = 0
    bytes: int = 0
    oldest_finished_at: int | None = None


class Shrunk(Struct, frozen=True):
    """What a store has given back to the file system, and what it still holds and does not use; None where a database
    server keeps the store, and knows."""

    returned_bytes: int
    unused_bytes: int | None


class StoreFigures(Struct, frozen=True, kw_only=True):
    """How a store does, and what this process has asked of it since it has started."""

    store_bytes: int | None
    log_bytes: Annotated[int | None, Meta(description="of the write-ahead log")]
    free_bytes: Annotated[int | None, Meta(description="on the device; null where a database server keeps the store")]
    unused_bytes: Annotated[int | None, Meta(description="inside the store; null where that cannot be told")] = None
    returned_bytes: Annotated[int, Meta(description="given back to the file system")] = 0
    ledger_rows: Annotated[int | None, Meta(description="null where the store keeps no ledger")] = None
    ledger_bytes: Annotated[int | None, Meta(description="about so many, without what an index takes")] = None
    ledger_oldest_ms: Annotated[int | None, Meta(description="how long ago its oldest row finished")] = None
    units: int
    operations: int
    unit_seconds: Annotated[float, Meta(description="spent in units that have ended well, in all")]
    commit_seconds: Annotated[float, Meta(description="of these, at their ends: what was left to write, and the sync")]
    sync_seconds: Annotated[float, Meta(description="of these, waiting for stable media: the database's COMMIT alone")]
    units_written: Annotated[int, Meta(description="units that have ended well and could write")]
    commit_median_ms: Annotated[float, Meta(description="of the last units that could write")]
    commit_p99_ms: float
    waiting_claims: int
    open_shipments: int
    errors: Annotated[dict[str, int], Meta(description="units that have failed, by the kind of error")]
