"""One step of a move, the same for every store: which messages it looks at, which of them go, and how far it is then.

A move that takes everything takes it from the head of the queue until nothing is left. One that chooses, deletes or
releases walks through the queue once: first through the messages that wait for an instant, then through the ready ones.
In this order a delay that ends meanwhile hides no message from it. One that means only claimed or delayed messages ends
where the ready ones begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock import policy
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import MessageState, Move, MoveAction, MoveStatus, PeekAfter, Queue
from penstock.selection import Selector

_READY_ONES = PeekAfter(0, 0)
# What a selection reads of a message beyond a `Candidate`: the body and the attributes.
Content = tuple[bytes, Mapping[str, str] | None]


class Candidate(Struct, frozen=True, gc=False):
    """A message as a move or a scan sees it, without its body."""

    seq: int
    ready_at: int
    state: MessageState
    sent_at: int
    receives: int
    content_type: str | None
    came_from: str | None
    last_claimed_at: int | None


class Movable(Protocol):
    """What a step needs of a store."""

    def find_queue(self, name: str) -> Queue | None: ...

    def move(
        self,
        source: str,
        target: str,
        now: int,
        limit: int,
        through: int,
        claimed: bool = False,
        as_new: bool = False,
    ) -> int: ...

    def look(self, queue: Queue, after: PeekAfter, through: int, now: int, limit: int) -> Sequence[Candidate]:
        """The messages after a place. Where its `ready_at` is 0, those that are ready or behind others of their group,
        by age, up to the number `through`, as if all of them stood at 0: a group keeps its order on its way. Else all
        others but those in shipments, by `ready_at`."""

    def contents(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Content]:
        """The bodies and attributes of messages, in the order of `peek`, until they come to `budget`; at least one."""

    def carry(self, here: Queue, there: Queue, seqs: Sequence[int], now: int, claimed: bool, as_new: bool) -> int:
        """Move these messages as `move` does, as far as they are still there, and say how many."""

    def purge(self, queue: Queue, seqs: Sequence[int], now: int, claimed: bool) -> int:
        """Finish these messages as purged, as far as they are still there, and say how many."""

    def release(self, queue: Queue, seqs: Sequence[int], now: int) -> int:
        """Make these messages ready, as far as they are still claimed, and say how many."""


class _Look(Struct):
    """What a step has found: where it has come to, how many messages it has passed, and those that are meant: by the
    queue they go to, or those that go nowhere."""

    place: PeekAfter
    examined: int = 0
    matched: int = 0
    homeless: int = 0
    going: dict[str, list[int]] = {}
    chosen: list[int] = []
    at_end: bool = False


def step(store: Movable, move: Move, now: int, limit: int, limits: Limits) -> Move:
    """The move after one more step."""
    if policy.move_wait_ms(move, now):
        return move
    source = store.find_queue(move.source)
    if source is None:
        return _ended(move, MoveStatus.COMPLETE, now)
    if move.target is not None and store.find_queue(move.target) is None:
        return replace(_ended(move, MoveStatus.ERROR, now), error=str(QueueNotFound(move.target)))
    room = policy.move_room(move, limit)
    if move.target is not None and policy.takes_everything(move):
        taking = policy.takes_claimed(move)
        moved = store.move(move.source, move.target, now, room, move.through, taking, move.terms.as_new)
        stepped = _further(move, moved, moved, moved, now)
        return stepped if moved else _ended(stepped, MoveStatus.COMPLETE, now)
    return _step_choosing(store, source, move, now, limit, room, limits)


def _step_choosing(store: Movable, source: Queue, move: Move, now: int, limit: int, room: int, limits: Limits) -> Move:
    # Where few may go at a time, few are looked at: what is not taken now would be read again.
    page = limit if move.terms.per_second is None else min(limit, max(room, limits.move_page_rows))
    found = _look(store, source, move, now, page, room, limits.move_bytes)
    moved = 0 if move.terms.dry_run else _act(store, source, move, found, now)
    stepped = _further(move, found.examined, found.matched, moved, now)
    stepped = replace(stepped, homeless=move.homeless + found.homeless, place=found.place)
    is_enough = policy.move_room(stepped, 1) == 0
    return _ended(stepped, MoveStatus.COMPLETE, now) if found.at_end or is_enough else stepped


def _act(store: Movable, source: Queue, move: Move, found: _Look, now: int) -> int:
    """Deal with the messages that were found, and say with how many."""
    taking = policy.takes_claimed(move)
    if move.terms.action is MoveAction.DELETE:
        return store.purge(source, found.chosen, now, taking)
    if move.terms.action is MoveAction.RELEASE:
        return store.release(source, found.chosen, now)
    moved = 0
    going = [(store.find_queue(name), seqs) for name, seqs in found.going.items()]
    # In one order everywhere, or two servers would wait for each other.
    for there, seqs in sorted(going, key=lambda one: one[0].number if one[0] else 0):
        if there is not None:
            moved += store.carry(source, there, seqs, now, taking, move.terms.as_new)
    return moved


def _look(store: Movable, source: Queue, move: Move, now: int, page: int, room: int, budget: int) -> _Look:
    candidates = store.look(source, move.place, move.through, now, page)
    found = _Look(move.place, going={}, chosen=[], at_end=not candidates and not move.place.ready_at)
    selector = Selector(move.terms.selection)
    meant = [one for one in candidates if _is_meant(one, move, selector)]
    contents: Mapping[int, Content] = {}
    if selector.reads_bodies and meant:
        contents = store.contents(source, [one.seq for one in meant], budget)
        if meant[0].seq not in contents:  # it waits behind another of its group, and those that are ready came first
            contents = {**contents, **store.contents(source, [meant[0].seq], budget)}
    are_all_read = len(contents) == len(meant)
    meant_seqs = {one.seq for one in meant}
    for one in candidates:
        if one.seq in meant_seqs:
            if room == 0:
                break
            if selector.reads_bodies and one.seq not in contents and not are_all_read:
                break  # its body comes with the next step
            if not selector.reads_bodies or (one.seq in contents and selector.finds(*contents[one.seq])):
                found.matched += 1
                room -= _choose(store, source, move, one, found)
        found.examined += 1
        found.place = PeekAfter(one.ready_at, one.seq)
    if move.place.ready_at and found.examined == len(candidates) < page:
        # Not one look further: those who claim meanwhile would put another message before the end, again and again.
        found.place, found.at_end = _READY_ONES, _passes_over_ready(move)
    return found


def _passes_over_ready(move: Move) -> bool:
    """Whether none of those that stand among the ready ones is meant."""
    is_release = move.terms.action is MoveAction.RELEASE
    return is_release or move.terms.selection.state in (MessageState.CLAIMED, MessageState.DELAYED)


def _choose(store: Movable, source: Queue, move: Move, one: Candidate, found: _Look) -> int:
    """Note what is to become of a message that matches; how many of those that may be dealt with it is."""
    if move.terms.action is not MoveAction.MOVE:
        found.chosen.append(one.seq)
        return 1
    goes_to = _destination(store, source, move, one)
    if goes_to is None:
        found.homeless += 1
        return 0
    found.going.setdefault(goes_to, []).append(one.seq)
    return 1


def _is_meant(one: Candidate, move: Move, selector: Selector) -> bool:
    is_free = policy.takes_claimed(move) or one.state is not MessageState.CLAIMED
    if move.terms.action is MoveAction.RELEASE:
        # A claim that has begun since then is another one: else a move and those who claim could go on forever.
        is_since = one.last_claimed_at is not None and one.last_claimed_at > move.started_at
        is_free = one.state is MessageState.CLAIMED and not is_since
    if not is_free or one.seq > move.through:
        return False
    return selector.admits(one.sent_at, one.receives, one.content_type, one.state)


def _destination(store: Movable, source: Queue, move: Move, one: Candidate) -> str | None:
    return move.target if move.target is not None else home(store, source, one.came_from)


def home(store: Movable, source: Queue, came_from: str | None) -> str | None:
    """The queue in which a dead letter was sent, where that is there still."""
    if came_from is None or came_from == source.name or store.find_queue(came_from) is None:
        return None
    return came_from


def _further(move: Move, examined: int, matched: int, moved: int, now: int) -> Move:
    return replace(
        move,
        examined=move.examined + examined,
        matched=move.matched + matched,
        moved=move.moved + moved,
        next_at=policy.move_next_at(move, moved, now),
    )


def _ended(move: Move, status: MoveStatus, now: int) -> Move:
    return replace(move, status=status, finished_at=now)
