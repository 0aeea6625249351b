"""One step of a scan, the same for every store: a peek that shows only what is selected, and says how far it looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock import limits
from penstock.model import Found, Message, PeekAfter, Queue, Scan, Selection
from penstock.selection import Selector
from penstock.stores.move_step import Candidate


class Scannable(Protocol):
    """What a step needs of a store."""

    def look(self, queue: Queue, after: PeekAfter, now: int, limit: int) -> Sequence[Candidate]:
        """The messages after a place, in any state, in the order of `peek`."""

    def read(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Message]:
        """Messages, in the order of `peek`, until their bodies and attributes come to `budget`; at least one."""


def scan(
    store: Scannable, queue: Queue, selection: Selection, now: int, limit: int, rows: int, after: PeekAfter, budget: int
) -> Scan:
    """Look at up to `rows` messages, and at fewer where `limit` of them are selected or their bodies come to
    `budget`."""
    candidates = store.look(queue, after, now, rows)
    selector = Selector(selection)
    admitted = [one for one in candidates if selector.admits(one.sent_at, one.receives, one.content_type, one.state)]
    # Where it takes no body to tell, those past the limit need not be read.
    wanted = admitted if selector.reads_bodies else admitted[:limit]
    messages: Mapping[int, Message] = {}
    if wanted:
        messages = store.read(queue, [one.seq for one in wanted], budget)
        if wanted[0].seq not in messages:  # it was moved to the end of the queue since, and others came first
            messages = {**messages, **store.read(queue, [wanted[0].seq], budget)}
    are_all_read = len(messages) == len(admitted)
    unread = {one.seq for one in admitted}.difference(messages)
    found: list[Found] = []
    place, examined = after, 0
    for one in candidates:
        if len(found) == limit or (one.seq in unread and not are_all_read):
            break
        message = messages.get(one.seq)
        if message is not None and selector.finds(message.body, message.attributes):
            found.append(Found(message, one.state, one.last_claimed_at, one.ready_at == limits.SHIPPED))
        examined += 1
        place = PeekAfter(one.ready_at, one.seq)
    is_end = examined == len(candidates) < rows
    read = sum(len(message.body) for message in messages.values())
    return Scan(found, examined, None if is_end else place, read)
