"""Everything that can go wrong, by who must act on it.

    PenstockError
    ├── CallerError               the caller must change the request
    │   ├── InvalidRequest        a value that does not parse or is out of range
    │   │   └── SettingFixed      it was chosen when the queue was made
    │   ├── UnsupportedMediaType  a body of another content type is required
    │   ├── TooLarge              over a limit; says which
    │   ├── QueueNotFound
    │   ├── QueueExists
    │   ├── MessageNotFound
    │   ├── DeadLetterQueueNotFound
    │   ├── NotPermitted          the API key is too weak
    │   ├── MoveNotFound
    │   ├── MoveConflict          another move of the queue is still in progress
    │   ├── ShipmentNotFound      (or an export)
    │   ├── ShipmentConflict      not the number that is next, or another one is open
    │   ├── ShipmentEnded         settled, released or lost: there is nothing left to read
    │   ├── LeaseHeld             another holder has the lease
    │   ├── SendConflict          the idempotency key belongs to another send
    │   ├── KeyNotFound
    │   ├── KeyExists
    │   ├── KeyRevoked
    │   └── KeyHasTwoSecrets
    ├── TryAgain                  the same request may succeed later; no one has to act yet
    │   ├── StoreBusy             another process holds the store
    │   ├── StoreFull             no room on the device
    │   └── StoreUnavailable      the device or the database does not answer
    │       └── CommitterGone     the process that writes to the store has ended
    └── OperatorError             the operator must look at the store or the settings
        ├── StoreCorrupt
        ├── StoreForeign          not a Penstock store, or made by a newer version
        ├── StoreReadOnly         this process may not write to it
        ├── StoreInherited        a parent process had it open when it forked
        ├── StoreHandedOver       it was copied to another store, which is used instead
        ├── MigrationUnfinished   the store is an incomplete copy
        ├── MigrationFailed       the copy differs from its source
        ├── FeatureMissing        the store does not keep what was asked of it; another store would
        └── InvalidSetting

A store translates its driver's errors into these in one place; a face translates these into its own
answers in one table.
"""

from __future__ import annotations

from typing import Protocol


class PenstockError(Exception):
    """The root of every error this project raises on purpose."""


class CallerError(PenstockError):
    pass


class InvalidRequest(CallerError):
    pass


class SettingFixed(InvalidRequest):
    pass


class UnsupportedMediaType(CallerError):
    def __init__(self) -> None:
        super().__init__("Content-Type: application/json is required")


class TooLarge(CallerError):
    pass


class QueueNotFound(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"queue {name!r} does not exist")
        self.name = name


class QueueExists(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"queue {name!r} already exists")
        self.name = name


class MessageNotFound(CallerError):
    def __init__(self, message_id: str) -> None:
        super().__init__(f"message {message_id!r} does not exist, or its record is no longer kept")


class DeadLetterQueueNotFound(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"dead-letter queue {name!r} does not exist")
        self.name = name


class NotPermitted(CallerError):
    """`needed` is the rule that would permit it, or a description of it."""

    def __init__(self, needed: str) -> None:
        super().__init__(f"this API key does not permit it: it needs {needed}")


class MoveNotFound(CallerError):
    def __init__(self, move_id: str) -> None:
        super().__init__(f"there is no move {move_id!r}")
        self.move_id = move_id


class MoveConflict(CallerError):
    def __init__(self, source: str, target: str | None) -> None:
        either = repr(source) if target is None else f"{source!r} or {target!r}"
        super().__init__(f"{either} is part of another move that is still in progress")


class Ref(Protocol):
    """A `ShipmentRef` or an `ExportRef` of `model.py`, which lies above this module."""

    @property
    def consumer(self) -> str: ...

    @property
    def number(self) -> int: ...


class ShipmentNotFound(CallerError):
    def __init__(self, ref: Ref) -> None:
        super().__init__(f"{ref.consumer!r} never had number {ref.number}, or it is no longer remembered")


class ShipmentConflict(CallerError):
    """Without a number that was `expected`, it is the right one, but the shipment is still gathering."""

    def __init__(self, ref: Ref, expected: int | None = None) -> None:
        why = "claim it again, it is not complete yet" if expected is None else f"number {expected} was expected"
        super().__init__(f"number {ref.number} of {ref.consumer!r}: {why}")
        self.expected = ref.number if expected is None else expected


class ShipmentEnded(CallerError):
    """`how` is one word: settled, released, lost, or purged for messages that left in another way."""

    def __init__(self, ref: Ref, how: str) -> None:
        super().__init__(f"number {ref.number} of {ref.consumer!r} has ended: it was {how}")
        self.how = how


class LeaseHeld(CallerError):
    """Another `holder` has it, and keeps it `until` an instant at least."""

    def __init__(self, name: str, holder: str, until: int) -> None:
        super().__init__(f"the lease {name!r} is held by {holder!r}")
        self.holder = holder
        self.until = until


class SendConflict(CallerError):
    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key!r} was already used with different content")


class KeyNotFound(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no API key {name!r}")


class KeyExists(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"an API key named {name!r} already exists or was revoked")


class KeyRevoked(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"the API key {name!r} was revoked, which is for good")


class KeyHasTwoSecrets(CallerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"the API key {name!r} has two secrets already: retire the old one first")


class TryAgain(PenstockError):
    retry_after_s = 1


class StoreBusy(TryAgain):
    pass


class StoreFull(TryAgain):
    retry_after_s = 10


class StoreUnavailable(TryAgain):
    retry_after_s = 5


class StoreSilent(StoreUnavailable):
    """It has not answered in time: what was asked of it may still happen."""


class CommitterGone(StoreUnavailable):
    pass


class OperatorError(PenstockError):
    pass


class StoreCorrupt(OperatorError):
    pass


class StoreForeign(OperatorError):
    pass


class StoreReadOnly(OperatorError):
    pass


class StoreInherited(OperatorError):
    pass


class StoreHandedOver(OperatorError):
    pass


class MigrationUnfinished(OperatorError):
    pass


class MigrationFailed(OperatorError):
    pass


class FeatureMissing(OperatorError):
    pass


class InvalidSetting(OperatorError):
    pass
