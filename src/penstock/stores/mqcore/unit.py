"""The verbs that MQ-Core defines, and counting."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from penstock import ids
from penstock.errors import FeatureMissing, QueueExists, QueueNotFound, StoreForeign
from penstock.limits import Limits
from penstock.model import Claimed, Count, Draft, Happened, Message, Outcome, Queue, QueuePage, Receipt, Sent, Settings
from penstock.stores.figures import CLAIMED, SENT, count, place_of
from penstock.stores.mqcore import files
from penstock.stores.mqcore.cursor import is_file, message_names
from penstock.stores.mqcore.delays import due_of, set_due
from penstock.stores.mqcore.folders import QueueFolder, move
from penstock.stores.mqcore.paths import (
    SEPARATOR,
    check_queue,
    file_name,
    id_of,
    is_message,
    is_uuid,
    names_of,
    sent_at,
)
from penstock.stores.mqcore.round import Round
from penstock.stores.mqcore.state import State

log = logging.getLogger(__name__)

_DEFAULT = Settings()
# The document counts neither deliveries nor claims: every delivery counts as the first.
_RECEIVES = 1
_CLAIM = 1
# Messages that one sweep destroys before it gives way to requests.
_SWEEP_FILES = 256


class MqCoreUnit:
    # The document knows none of these.
    messages = None
    moves = None
    shipments = None
    leases = None
    ledger = None
    exports = None
    consumers = None
    keys = None
    actions = None

    def __init__(self, state: State, round_: Round, limits: Limits) -> None:
        self.stirred: set[str] = set()
        self.sent_to: set[str] = set()
        self.happened: Happened = {}
        self.figures = state.figures
        self._limits = limits
        self._state = state
        self._round = round_
        self._folders = round_.folders
        self._claimed: list[tuple[QueueFolder, str]] = []

    def prove_writable(self) -> None:
        os.utime(self._folders.new)

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        check_queue(name)
        if settings != _DEFAULT:
            raise _cannot_keep("settings of a queue")
        folders = self._folders
        try:
            os.mkdir(name, 0o700, dir_fd=folders.queues)
        except FileExistsError as error:
            if folders.queue(name) is None:
                raise StoreForeign(f"{folders.root / 'queues' / name} is in the way: it is not a folder") from error
            raise QueueExists(name) from None
        self._round.touch(folders.queues)
        self._round.undo_by(lambda: os.rmdir(name, dir_fd=folders.queues))
        queue = self._queue(name)
        self.figures.forget(queue.inode)  # of a folder that was removed, and whose inode this one has
        return self._shown(queue)

    def update_queue(self, name: str, settings: Settings, now: int) -> Queue:
        raise _cannot_keep("settings of a queue")

    def pause_queue(self, name: str, now: int) -> Queue:
        raise _cannot_keep("pauses of a queue")

    def resume_queue(self, name: str, now: int) -> Queue:
        raise _cannot_keep("pauses of a queue")

    def delete_queue(self, name: str, now: int) -> Queue:
        """The folder leaves as a whole, so that nothing can arrive in it any more; then what is on its way."""
        queue = self._queue(name)
        self._round.deliver()
        folders = self._folders
        grave = file_name(name, self._state.next_id(now))
        if not move(name, folders.queues, grave, folders.remove):
            raise QueueNotFound(name)
        self._round.undo_by(lambda: move(grave, folders.remove, name, folders.queues))
        self._round.touch(folders.queues, folders.remove)
        for source in (folders.new, folders.delay):
            for message in folders.names_of(name, source):
                if folders.discard(message, source):
                    self._round.touch(source)
                    self._round.undo_by(partial(move, message, folders.remove, message, source))
        self.stirred.add(name)
        return self._shown(queue)

    def find_queue(self, name: str) -> Queue | None:
        found = self._folders.queue(name)
        return None if found is None else self._shown(found)

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        """By name: a file system does not remember in which order its folders were made."""
        names = self._folders.queue_names()
        found = (self.find_queue(name) for name in names[offset : offset + limit])
        return QueuePage(len(names), [queue for queue in found if queue is not None])

    def page_queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        names = (name for name in self._folders.queue_names() if name.startswith(prefix) and name > after)
        found = (self.find_queue(name) for name in names)
        return list(islice((queue for queue in found if queue is not None), limit))

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> list[Queue]:
        self._queue(queue)
        return []

    def take_turns(self, queues: Iterable[str]) -> None:
        """What two processes want at once, one of them gets."""

    def _queue(self, name: str) -> QueueFolder:
        found = self._folders.queue(name)
        if found is None:
            raise QueueNotFound(name)
        return found

    @staticmethod
    def _shown(queue: QueueFolder) -> Queue:
        return Queue(queue.inode, queue.name, 0, _DEFAULT)

    # Messages

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        found = self._queue(queue)
        for draft in drafts:
            if draft.attributes or draft.delay_ms or draft.deadline_at is not None or draft.group is not None:
                raise _cannot_keep("attributes, groups, delays and deadlines of a message")
        sent = []
        for draft in drafts:
            message_id = self._state.next_id(now)
            self._round.write(found, message_id, draft)
            sent.append(Sent(message_id, stored=True))
        self.sent_to.add(queue)
        count(self.happened, found.inode, SENT, len(sent))
        return sent

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self._queue(queue)
        self._round.deliver()
        if self._state.mover is not None:
            self._state.mover.redeliver(self._folders, now, _arrive)
        hold = _DEFAULT.visibility_ms if hold_ms is None else hold_ms
        found.cursor.refresh()
        messages: list[Message] = []
        looked_at: set[str] = set()
        room = self._limits.claim_bytes
        while len(messages) < limit and room > 0:
            file = found.cursor.take(limit - len(messages))
            if file is None or file in looked_at:
                break  # what is only looked at stays there, and would be found again and again
            read = self._take(found, file, now + hold) if hold > 0 else self._look(found, file)
            if read is not None:
                messages.append(_message(found.name, id_of(file), read, now + hold))
                room -= len(read[0])
            if hold <= 0:
                looked_at.add(file)
        for file in looked_at:
            found.cursor.add(file)
        self._state.claimed += len(messages)
        if messages:
            count(self.happened, found.inode, CLAIMED, len(messages))
        return Claimed(messages, more=room <= 0 and len(messages) < limit)

    def _take(self, queue: QueueFolder, file: str, until: int) -> tuple[bytes, str | None] | None:
        """Move a message to `delay` and read it; None when another process was faster, or it is not a message."""
        folders = self._folders
        name = file_name(queue.name, file)
        try:
            set_due(queue.descriptor, file, until)
            os.rename(file, name, src_dir_fd=queue.descriptor, dst_dir_fd=folders.delay)
        except FileNotFoundError:
            self._state.lost += 1
            queue.cursor.lost()
            return None
        self._round.touch(queue.descriptor, folders.delay)
        self._round.undo_by(lambda: self._give_back(queue, file))
        if self._state.mover is not None:
            self._state.mover.delays.add(name, until)
        try:
            read = files.read(folders.delay, name)
        except FileNotFoundError:  # deleted in this very moment
            return None
        if read is None:
            log.warning("what lies in the place of a message is none, and is removed: %s", name)
            folders.discard(name, folders.delay)
            return None
        self._claimed.append((queue, name))
        return read

    def _give_back(self, queue: QueueFolder, message_id: str) -> None:
        if self._folders.deliver(queue, message_id, self._folders.delay):
            queue.cursor.add(message_id)

    @staticmethod
    def _look(queue: QueueFolder, message_id: str) -> tuple[bytes, str | None] | None:
        try:
            return files.read(queue.descriptor, message_id)
        except FileNotFoundError:
            return None

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        self._round.deliver()
        return [self._ack(receipt) for receipt in receipts]

    def _ack(self, receipt: Receipt) -> bool:
        if receipt.queue is None:
            raise _cannot_keep("acks that do not name the queue")
        queue = self._folders.queue(receipt.queue)
        if queue is None or receipt.claim not in (None, _CLAIM):
            return False
        names = [name for name in names_of(receipt.id) if is_message(name, queue.name)]
        is_removed = any(self._remove(queue, name) for name in names)
        if is_removed:
            count(self.happened, queue.inode, place_of(Outcome.PROCESSED), 1)
        return is_removed

    def _remove(self, queue: QueueFolder, message_id: str) -> bool:
        """From wherever it is to `remove`, in the order of the document. A message on its way from one place to the
        next may escape the first look, hence the second."""
        folders = self._folders
        name = file_name(queue.name, message_id)
        places = [(folders.new, name), (queue.descriptor, message_id), (folders.delay, name)]
        for source, source_name in places + places[1:]:
            if not is_uuid(message_id) and not is_file(source, source_name):
                continue
            if move(source_name, source, name, folders.remove):
                self._round.touch(source, folders.remove)
                self._round.undo_by(partial(self._put_back, queue, name, source, source_name))
                if self._state.mover is not None:
                    self._state.mover.delays.discard(name)
                return True
        return False

    def _put_back(self, queue: QueueFolder, name: str, source: int, source_name: str) -> None:
        if not move(name, self._folders.remove, source_name, source):
            return
        if source == queue.descriptor:
            queue.cursor.add(source_name)
        elif self._state.mover is not None:
            self._state.mover.delays.note(self._folders.delay, name)

    def end(self) -> None:
        """Claims on a queue that was deleted meanwhile: these messages must not be handed out again, not even by a
        new queue of the same name."""
        for queue in {queue for queue, _ in self._claimed}:
            if not self._folders.is_there(queue):
                for claimed_from, name in self._claimed:
                    if claimed_from is queue:
                        self._folders.discard(name, self._folders.delay)

    # Views

    def count(self, queue: str, now: int, limit: int) -> Count:
        """Lists the folder: it costs as much as there is."""
        found = self._queue(queue)
        self._round.deliver()
        ready = list(message_names(found.descriptor, queue))
        names = list(self._folders.names_of(queue, self._folders.delay))
        dues = {name: due for name in names if (due := due_of(self._folders.delay, name)) is not None}
        claimed = sum(due > now for due in dues.values())
        total = len(ready) + len(dues)
        sent = {name: sent_at(name.partition(SEPARATOR)[2]) for name in dues}
        # Of a file that was put there by hand, nothing says when it was sent.
        ages = [age for age in map(sent_at, ready) if age]
        ages += [sent[name] for name, due in dues.items() if due <= now and sent[name]]
        held = [sent[name] for name, due in dues.items() if due > now and sent[name]]
        return Count(
            total,
            total - claimed,
            0,
            claimed,
            exact=True,
            oldest_sent_at=min((*ages, *held), default=None),
            oldest_ready_sent_at=min(ages, default=None),
        )

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        living = [queue.name for queue in queues if self._folders.queue(queue.name) is not None]
        counted = {name: self.count(name, now, limit) for name in living}
        return [counted.get(queue.name) or Count(0, 0, 0, 0, exact=True) for queue in queues]

    def next_due(self, queue: str, now: int) -> int | None:
        dues = [due_of(self._folders.delay, name) for name in self._folders.names_of(queue, self._folders.delay)]
        return min((due for due in dues if due is not None and due > now), default=None)

    # Housekeeping

    def shrink(self, _limit: int) -> int:
        """Files of messages that are gone are gone as well."""
        return 0

    def sweep(
        self, now: int, limit: int, ledger_before: int, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        """Whatever mq-mover and mq-reaper would do, where this process does their work."""
        done = 0
        if self._state.mover is not None:
            self._state.mover.delays.refresh(self._folders.delay)
            done += self._state.mover.recover(self._folders, self._stir)
            done += self._state.mover.redeliver(self._folders, now, self._stir)
        if self._state.reaper is not None:
            done += self._state.reaper.reap(self._folders, min(limit, _SWEEP_FILES), time.monotonic())
        return done + self.figures.sweep(now, limit - done)

    def _stir(self, queue: QueueFolder, message_id: str) -> None:
        _arrive(queue, message_id)
        self.stirred.add(queue.name)


def _cannot_keep(what: str) -> FeatureMissing:
    return FeatureMissing(f"an mqcore:// store does not keep {what}")


def _arrive(queue: QueueFolder, message_id: str) -> None:
    queue.cursor.add(message_id)


def _message(queue: str, message_id: str, read: tuple[bytes, str | None], until: int) -> Message:
    body, content_type = read
    return Message(
        id=message_id,
        seq=ids.seq_of(message_id) or 0,
        queue=queue,
        body=body,
        content_type=content_type,
        attributes=None,
        sent_at=sent_at(message_id),
        ready_at=until,
        receives=_RECEIVES,
        claim=_CLAIM,
        deadline_at=None,
    )
