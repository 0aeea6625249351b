"""The settings of a queue, as the native API reads and shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits
from penstock.errors import InvalidRequest
from penstock.faces.bodies import within
from penstock.faces.native.requests import Duration
from penstock.model import Backoff, Dedup, DedupScope, Groups, LedgerMode, QueueChange, Redrive, Settings

_DedupWord = Literal["off", "send", "claim", "window"]
_ScopeWord = Literal["queue", "group"]
_GroupsWord = Literal["off", "fifo"]
_LedgerWord = Literal["off", "outcomes", "bodies"]
_DEDUPS: dict[_DedupWord, Dedup] = {
    "off": Dedup.OFF,
    "send": Dedup.SEND,
    "claim": Dedup.CLAIM,
    "window": Dedup.WINDOW,
}
_SCOPES: dict[_ScopeWord, DedupScope] = {"queue": DedupScope.QUEUE, "group": DedupScope.GROUP}
_GROUPS: dict[_GroupsWord, Groups] = {"off": Groups.OFF, "fifo": Groups.FIFO}
_LEDGERS: dict[_LedgerWord, LedgerMode] = {
    "off": LedgerMode.OFF,
    "outcomes": LedgerMode.OUTCOMES,
    "bodies": LedgerMode.BODIES,
}
_DEDUP_WORDS = {dedup: word for word, dedup in _DEDUPS.items()}
_SCOPE_WORDS = {scope: word for word, scope in _SCOPES.items()}
_GROUPS_WORDS = {groups: word for word, groups in _GROUPS.items()}
_LEDGER_WORDS = {mode: word for word, mode in _LEDGERS.items()}
_Lasting = Annotated[int, Meta(ge=1, le=limits.DURATION_MS)]
_VISIBILITY = Meta(description="how long a claim holds a message that does not say otherwise")
_RETENTION = Meta(description="how long after its send a message is handed out")
_DELAY = Meta(description="how long a new message waits before it is ready")
_DEDUP = Meta(
    description="what becomes of equal messages: `send` stores one while it is in the queue, `claim` hands out one, "
    "`window` stores one for a while, even after it has left"
)
_REDRIVE = Meta(description="how many receives a message may have, and where it goes then")
_LEDGER = Meta(description="what is remembered of a finished message")
_BACKOFF = Meta(description="how long a message waits after a claim that has run out or was released")
_FixedGroups = Annotated[
    _GroupsWord,
    Meta(
        description="with `fifo`, the messages of a group are handed out in their order, none while one before it is "
        "claimed or delayed; chosen when the queue is made"
    ),
]
_Window = Annotated[
    int,
    Meta(
        ge=limits.DEDUP_WINDOW_LEAST_MS,
        le=limits.DEDUP_WINDOW_MOST_MS,
        description="how long after a send its twins are not stored, where `dedup` is `window`",
    ),
]
_Scope = Annotated[
    _ScopeWord, Meta(description="where messages are twins, with `window`: in the whole queue, or in one group only")
]
_Label = Annotated[str, Meta(extra_json_schema={"maxLength": limits.LABEL_VALUE_LENGTH})]
_LABEL_KEYS = Meta(
    extra_json_schema={
        "propertyNames": {
            "minLength": 1,
            "maxLength": limits.LABEL_KEY_LENGTH,
            "pattern": f"^(?!{limits.RESERVED_LABELS})",
        }
    }
)


class RedriveChange(Struct, forbid_unknown_fields=True):
    max_receives: Annotated[int, Meta(ge=1, le=limits.INT32_MAX)]
    dead_letter_queue: str


class BackoffChange(Struct, forbid_unknown_fields=True):
    first_ms: Annotated[_Lasting, Meta(description="after its first receive")]
    most_ms: Annotated[
        _Lasting, Meta(description="it doubles with each receive until it is this long; not shorter than `first_ms`")
    ]


class SettingsChange(Struct, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    visibility_ms: Annotated[Duration | UnsetType, _VISIBILITY] = UNSET
    retention_ms: Annotated[_Lasting | UnsetType, _RETENTION] = UNSET
    delay_ms: Annotated[Duration | UnsetType, _DELAY] = UNSET
    dedup: Annotated[_DedupWord | UnsetType, _DEDUP] = UNSET
    redrive: Annotated[RedriveChange | UnsetType | None, _REDRIVE] = UNSET
    ledger: Annotated[_LedgerWord | UnsetType, _LEDGER] = UNSET
    backoff: Annotated[BackoffChange | UnsetType | None, _BACKOFF] = UNSET
    groups: _FixedGroups | UnsetType = UNSET
    dedup_window_ms: _Window | UnsetType = UNSET
    dedup_scope: _Scope | UnsetType = UNSET
    # Checked by `_checked_labels`, which says which of them is wrong.
    labels: Annotated[
        Annotated[dict[str, _Label | None], _LABEL_KEYS] | UnsetType,
        Meta(
            description="labels to set, by key; `null` removes one, and others stay. Printable characters, and at most "
            f"{limits.LABELS} labels; keys that begin with `{limits.RESERVED_LABELS}` are reserved"
        ),
    ] = UNSET


class SettingsView(Struct):
    visibility_ms: Annotated[Duration, _VISIBILITY]
    retention_ms: Annotated[_Lasting, _RETENTION]
    delay_ms: Annotated[Duration, _DELAY]
    dedup: Annotated[_DedupWord, _DEDUP]
    redrive: Annotated[RedriveChange | None, _REDRIVE]
    ledger: Annotated[_LedgerWord, _LEDGER]
    backoff: Annotated[BackoffChange | None, _BACKOFF]
    groups: _FixedGroups
    dedup_window_ms: _Window
    dedup_scope: _Scope
    labels: Annotated[dict[str, str], Meta(description="by key, those of other APIs included")]


def change_from(asked: SettingsChange) -> QueueChange:
    return QueueChange(
        visibility_ms=asked.visibility_ms,
        retention_ms=asked.retention_ms,
        delay_ms=asked.delay_ms,
        dedup=UNSET if isinstance(asked.dedup, UnsetType) else _DEDUPS[asked.dedup],
        redrive=_redrive(asked.redrive) if isinstance(asked.redrive, RedriveChange) else asked.redrive,
        ledger=UNSET if isinstance(asked.ledger, UnsetType) else _LEDGERS[asked.ledger],
        backoff=_backoff(asked.backoff) if isinstance(asked.backoff, BackoffChange) else asked.backoff,
        groups=UNSET if isinstance(asked.groups, UnsetType) else _GROUPS[asked.groups],
        dedup_window_ms=asked.dedup_window_ms,
        dedup_scope=UNSET if isinstance(asked.dedup_scope, UnsetType) else _SCOPES[asked.dedup_scope],
        labels=UNSET if isinstance(asked.labels, UnsetType) else _checked_labels(asked.labels),
    )


def _redrive(asked: RedriveChange) -> Redrive:
    return Redrive(asked.max_receives, asked.dead_letter_queue)


def _backoff(asked: BackoffChange) -> Backoff:
    most_ms = within("backoff.most_ms", asked.most_ms, asked.first_ms, limits.DURATION_MS)
    return Backoff(asked.first_ms, most_ms)


def _checked_labels(labels: dict[str, str | None]) -> dict[str, str | None]:
    for key, value in labels.items():
        if not (0 < len(key) <= limits.LABEL_KEY_LENGTH and key.isprintable()):
            raise InvalidRequest(f"the key of a label has 1 to {limits.LABEL_KEY_LENGTH} printable characters")
        if key.startswith(limits.RESERVED_LABELS):
            raise InvalidRequest(f"labels that begin with {limits.RESERVED_LABELS} are reserved: {key!r}")
        if value is not None and not (len(value) <= limits.LABEL_VALUE_LENGTH and value.isprintable()):
            raise InvalidRequest(f"the label {key!r} has at most {limits.LABEL_VALUE_LENGTH} printable characters")
    return labels


def settings_view(settings: Settings) -> SettingsView:
    redrive, backoff = settings.redrive, settings.backoff
    return SettingsView(
        settings.visibility_ms,
        settings.retention_ms,
        settings.delay_ms,
        _DEDUP_WORDS[settings.dedup],
        None if redrive is None else RedriveChange(redrive.max_receives, redrive.dead_letter_queue),
        _LEDGER_WORDS[settings.ledger],
        None if backoff is None else BackoffChange(backoff.first_ms, backoff.most_ms),
        _GROUPS_WORDS[settings.groups],
        settings.dedup_window_ms,
        _SCOPE_WORDS[settings.dedup_scope],
        settings.labels,
    )
