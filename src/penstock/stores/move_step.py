"""One step of a move, the same for every store: which messages it looks at, which of them go, and how far it is then.

A move that takes everything takes it from the head of the queue until nothing is left. One that chooses walks through
the queue once: first through the messages that wait for an instant, then through the ready ones. In this order a delay
that ends meanwhile hides no message from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock import policy
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Move, MoveStatus, PeekAfter, Queue
from penstock.selection import Selector

_READY_ONES = PeekAfter(0, 0)


class Candidate(Struct, frozen=True, gc=False):
    """A message as a move sees it, without its body. `held` says that a claim on it lasts."""

    seq: int
    ready_at: int
    held: bool
    sent_at: int
    receives: int
    content_type: str | None
    came_from: str | None


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

    def bodies(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, bytes]:
        """The bodies of messages, in the order of `peek`, until they and their attributes come to `budget`; at least
        one."""

    def carry(self, here: Queue, there: Queue, seqs: Sequence[int], now: int, claimed: bool, as_new: bool) -> int:
        """Move these messages as `move` does, as far as they are still there, and say how many."""


class _Look(Struct):
    """What a step has found: where it has come to, how many messages it has passed, and by the queue they go to, those
    that are meant."""

    place: PeekAfter
    examined: int = 0
    matched: int = 0
    homeless: int = 0
    going: dict[str, list[int]] = {}
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
        moved = store.move(move.source, move.target, now, room, move.through, move.claimed, move.terms.as_new)
        stepped = _further(move, moved, moved, moved, now)
        return stepped if moved else _ended(stepped, MoveStatus.COMPLETE, now)
    return _step_choosing(store, source, move, now, limit, room, limits)


def _step_choosing(store: Movable, source: Queue, move: Move, now: int, limit: int, room: int, limits: Limits) -> Move:
    # Where few may go at a time, few are looked at: what is not taken now would be read again.
    page = limit if move.terms.per_second is None else min(limit, max(room, limits.move_page_rows))
    found = _look(store, source, move, now, page, room, limits.move_bytes)
    moved = 0
    if not move.terms.dry_run:
        going = [(store.find_queue(name), seqs) for name, seqs in found.going.items()]
        # In one order everywhere, or two servers would wait for each other.
        for there, seqs in sorted(going, key=lambda one: one[0].number if one[0] else 0):
            if there is not None:
                moved += store.carry(source, there, seqs, now, move.claimed, move.terms.as_new)
    stepped = _further(move, found.examined, found.matched, moved, now)
    stepped = replace(stepped, homeless=move.homeless + found.homeless, place=found.place)
    is_enough = policy.move_room(stepped, 1) == 0
    return _ended(stepped, MoveStatus.COMPLETE, now) if found.at_end or is_enough else stepped


def _look(store: Movable, source: Queue, move: Move, now: int, page: int, room: int, budget: int) -> _Look:
    candidates = store.look(source, move.place, move.through, now, page)
    if not candidates and move.place.ready_at:
        return _Look(_READY_ONES)
    found = _Look(move.place, going={}, at_end=not candidates)
    selector = Selector(move.terms.selection)
    meant = [one for one in candidates if _is_meant(one, move, selector)]
    bodies: Mapping[int, bytes] = {}
    if selector.reads_bodies and meant:
        bodies = store.bodies(source, [one.seq for one in meant], budget)
        if meant[0].seq not in bodies:  # it waits behind another of its group, and those that are ready came first
            bodies = {**bodies, **store.bodies(source, [meant[0].seq], budget)}
    are_all_read = len(bodies) == len(meant)
    meant_seqs = {one.seq for one in meant}
    for one in candidates:
        if one.seq in meant_seqs:
            if room == 0:
                break
            if selector.reads_bodies and one.seq not in bodies and not are_all_read:
                break  # its body comes with the next step
            if not selector.reads_bodies or (one.seq in bodies and selector.finds(bodies[one.seq])):
                found.matched += 1
                goes_to = _destination(store, source, move, one)
                if goes_to is None:
                    found.homeless += 1
                else:
                    found.going.setdefault(goes_to, []).append(one.seq)
                    room -= 1
        found.examined += 1
        found.place = PeekAfter(one.ready_at, one.seq)
    return found


def _is_meant(one: Candidate, move: Move, selector: Selector) -> bool:
    is_free = move.claimed or not one.held
    return is_free and one.seq <= move.through and selector.admits(one.sent_at, one.receives, one.content_type)


def _destination(store: Movable, source: Queue, move: Move, one: Candidate) -> str | None:
    """The target, or the queue in which a dead letter was sent, where that is there still."""
    if move.target is not None:
        return move.target
    if one.came_from is None or one.came_from == source.name or store.find_queue(one.came_from) is None:
        return None
    return one.came_from


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
