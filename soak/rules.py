"""The promises, each as a rule over what clients saw. A rule speaks only of what is certain.

An answer says that something happened between the begin and the end of its request, and no more. So a claim holds for
certain from its answer until its hold has passed since it was asked for; an ack that was not answered may have
happened at any time from when it was asked for; and what somebody may have ended is not held for certain.

Nothing here imports the server's code, and nothing may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from soak.history import OK, REFUSED
from soak.messages import Claimed, Message, Place, Queue, Sent, Touched, World, times_shipped


class Finding(NamedTuple):
    rule: str
    words: str
    # Where in the history the proof is.
    places: tuple[Place, ...]


LOST = "a message that was answered 2xx is lost"
BACK = "what was acked came back"
TWICE_CLAIMED = "a message was under two live claims"
TWICE_STORED = "a message was stored twice"
STRANGE = "a message that no one has sent"
REFUSED_BUT_STORED = "a message that was refused was stored"
ASTRAY = "a message is in a queue that it was not sent to"
STALE = "a stale receipt was obeyed"
OVERTAKEN = "a later message of a producer came first"
OUT_OF_LINE = "a message of a group came before its turn"
TOO_OFTEN = "a message was received more often than its queue allows"
ID_TWICE = "an id was used twice"
LEDGER = "the ledger does not add up"
TALLY = "the tallies do not add up"
FAULT = "a server's own fault"


def of_message(message: Message, world: World) -> Iterator[Finding]:
    """What can be said of a message by itself."""
    if not message.sends:
        seen = [claim.at for claim in message.claims] + [left.at for left in message.left]
        yield Finding(STRANGE, f"{message.tag} was received, and never sent", tuple(seen[:3]))
        return
    yield from _existence(message, world)
    yield from _loss(message, world)
    yield from _comebacks(message, world)
    yield from _rivals(message, world)
    yield from _stale_receipts(message)
    for claim in message.claims:
        most = world.queue(claim.queue).max_receives
        if most and claim.receives > most:
            words = f"{message.tag} was received {claim.receives} times in {claim.queue}, which allows {most}"
            yield Finding(TOO_OFTEN, words, (claim.at,))


def _existence(message: Message, world: World) -> Iterator[Finding]:
    seen: list[tuple[Place, str]] = [(claim.at, claim.queue) for claim in message.claims]
    seen += [(left.at, left.queue) for left in message.left]
    if seen and all(send.outcome == REFUSED for send in message.sends):
        yield Finding(REFUSED_BUT_STORED, f"{message.tag}", (message.sends[0].at, seen[0][0]))
    homes = {send.queue for send in message.sends}
    for at, queue in seen:
        if queue not in homes and not world.queue(queue).may_gain:
            words = f"{message.tag} was sent to {', '.join(homes)} and found in {queue}"
            yield Finding(ASTRAY, words, (message.sends[0].at, at))
            break
    ids = {claim.id: claim.at for claim in message.claims} | {left.id: left.at for left in message.left}
    ids |= {send.id: send.at for send in message.sends if send.id and send.stored is not False}
    keys = {send.key for send in message.sends}
    # Repeated with its key, a send is stored once; a twin is a message of its own, and so is what arrives as new.
    allowed = 1 if len(keys) == 1 and None not in keys else len(message.sends)
    if len(ids) > allowed and not world.moves_as_new:
        words = f"{message.tag} has the ids {' and '.join(sorted(ids))}"
        yield Finding(TWICE_STORED, words, (message.sends[0].at, *list(ids.values())[:2]))


def _loss(message: Message, world: World) -> Iterator[Finding]:
    for send in message.sends:
        if send.outcome != OK or send.stored is False:
            continue
        # Where its sender was told the id, one twin does not stand for another.
        id = None if world.moves_as_new or world.queue(send.queue).dedup == "claim" else send.id
        if any(id in (None, left.id) for left in message.left):
            continue
        if any(ack.may_have_happened and id in (None, ack.id) for ack in message.acks):
            continue
        homes = world.reachable({send.queue, *(claim.queue for claim in message.claims)})
        if any(home.may_lose or not home.is_seen for home in homes):
            continue
        received = [claim.at for claim in message.claims if id in (None, claim.id)]
        how = "was received and never acked" if received else "was never received"
        words = f"{message.tag}, sent to {send.queue}, {how}, and is not there at the end"
        yield Finding(LOST, words, (send.at, *received[-2:]))
        return


def is_gone(ack: Touched, world: World, shipped: Sequence[tuple[float, float]]) -> bool:
    """Whether the message is finished for certain. Where that was not told of each message, a receipt may have been
    stale, and a message may have gone elsewhere before: to another queue, or into a shipment, when its claim had
    ended. `shipped` are the times at which it may have been in one."""
    if ack.outcome != OK or ack.done is False:
        return False
    if ack.done is True:
        return True
    queue = world.queue(ack.queue)
    is_shipped = any(begin <= ack.end and ack.begin <= end for begin, end in shipped)
    return ack.receipt is None and not queue.may_lose and not queue.targets and not is_shipped


def _comebacks(message: Message, world: World) -> Iterator[Finding]:
    finished: dict[str, Touched] = {}
    shipped = message.times_shipped()
    for ack in message.acks:
        if is_gone(ack, world, shipped) and (ack.id not in finished or ack.end < finished[ack.id].end):
            finished[ack.id] = ack
    for claim in message.claims:
        if claim.id in finished and claim.begin > finished[claim.id].end:
            words = f"{message.tag} was acked in {finished[claim.id].queue}, and then received in {claim.queue}"
            yield Finding(BACK, words, (finished[claim.id].at, claim.at))
    for left in message.left:
        if left.id in finished and left.begin > finished[left.id].end:
            words = f"{message.tag} was acked in {finished[left.id].queue}, and is in {left.queue} at the end"
            yield Finding(BACK, words, (finished[left.id].at, left.at))


def _rivals(message: Message, world: World) -> Iterator[Finding]:
    claims = sorted(message.claims, key=lambda claim: claim.end)
    for one, other in combinations(claims, 2):
        if one.id != other.id or _is_same_claim(one, other):
            continue
        if _excludes(one, other, message, world) and _excludes(other, one, message, world):
            apart = (
                f"{other.begin - one.end:.3f} s after the first was answered" if other.begin > one.end else "meanwhile"
            )
            words = (
                f"{message.tag} in {one.queue} was claimed by {one.at[0]} and, {apart}, by {other.at[0]}, while the"
                " first claim held it"
            )
            yield Finding(TWICE_CLAIMED, words, (one.at, other.at))


def _is_same_claim(one: Claimed, other: Claimed) -> bool:
    if one.name is not None and one.name == other.name:
        return True
    return one.receipt is not None and one.receipt == other.receipt


def _excludes(first: Claimed, second: Claimed, message: Message, world: World) -> bool:
    """Whether the second cannot have been made after the first: it would have been while that was live."""
    if second.end < first.begin:
        return True
    until = first.until
    for touch in sorted(message.touches, key=lambda touch: touch.begin):
        if touch.id != first.id or not touch.may_have_happened or touch.begin > second.end or touch.end < first.begin:
            continue
        if touch.op != "renew":
            return False
        # A renewal may hold for less than the claim did.
        is_before = touch.is_certain and touch.end < second.begin
        until = touch.until if is_before else min(until, touch.until)
    if any(begin <= second.end and end >= first.begin for begin, end in world.queue(first.queue).upheavals):
        return False
    return second.end < until


def _is_gone_before(ack: Touched, holder: Claimed, message: Message) -> bool:
    """Whether its holder may have acked it meanwhile: to ack what is gone is done in some APIs."""
    return ack.op == "ack" and any(
        touch.op == "ack" and touch.receipt == holder.receipt and touch.may_have_happened and touch.begin < ack.end
        for touch in message.touches
    )


def _stale_receipts(message: Message) -> Iterator[Finding]:
    made = {claim.receipt: claim for claim in message.claims if claim.receipt is not None}
    for touch in message.touches:
        claim = made.get(touch.receipt) if touch.receipt is not None else None
        if claim is None or touch.outcome != OK or touch.done is not True:
            continue
        for other in message.claims:
            if other.id != claim.id or _is_same_claim(claim, other) or other.receipt is None:
                continue
            if other.begin > claim.end and other.end < touch.begin and not _is_gone_before(touch, other, message):
                words = f"{message.tag}: {touch.op} by the receipt of {claim.at[0]} after {other.at[0]} had claimed it"
                yield Finding(STALE, words, (claim.at, other.at, touch.at))


def of_producer(messages: list[Message], world: World) -> Iterator[Finding]:
    """The order of one producer's messages, queue by queue and group by group. It sends one request after another."""
    by_place: dict[tuple[str, str | None], list[tuple[Sent, int, Message]]] = {}
    for message in messages:
        if len(message.sends) == 1:  # a repeated one has the place of whichever came first
            send = message.sends[0]
            by_place.setdefault((send.queue, send.group), []).append((send, message.number, message))
    for (name, group), sent in by_place.items():
        queue = world.queue(name)
        sent.sort(key=lambda entry: (entry[0].begin, entry[1]))
        line = [(send, message) for send, _, message in sent]
        if queue.keeps_lines and group is not None:
            yield from _line(name, group, line, queue)
        elif queue.is_ordered and not queue.keeps_lines:
            yield from _overtaking(name, line)


def _overtaking(queue: str, sent: list[tuple[Sent, Message]]) -> Iterator[Finding]:
    """One that was never handed out before was ready all the time: a claim that took a later one should have had it."""
    earliest: tuple[Claimed, Message] | None = None
    for send, message in reversed(sent):
        first = min((claim for claim in message.claims if claim.queue == queue), key=lambda c: c.end, default=None)
        if first is None or send.is_delayed:
            continue
        if first.receives == 1 and send.outcome == OK and earliest is not None:
            claim, later = earliest
            if claim.end < first.begin or (claim.at == first.at and claim.position < first.position):
                words = f"{later.tag} was received from {queue} before {message.tag}, which was ready"
                yield Finding(OVERTAKEN, words, (send.at, claim.at, first.at))
        if earliest is None or first.end < earliest[0].end:
            earliest = first, message


def _line(name: str, group: str, sent: list[tuple[Sent, Message]], queue: Queue) -> Iterator[Finding]:
    """While a message of a group is not finished, those after it come only with it, in one claim."""
    if queue.upheavals:
        return
    for place, (_, message) in enumerate(sent):
        for claim in message.claims:
            if claim.queue != name:
                continue
            for before, earlier in sent[:place]:
                if not _is_before(before, sent[place][0]) or earlier.may_be_finished_by(claim.end):
                    continue
                if ({c.queue for c in earlier.claims} | {left.queue for left in earlier.left}) - {name}:
                    continue  # it has become a dead letter
                if any(c.at == claim.at and c.position < claim.position for c in earlier.claims):
                    continue
                words = f"{message.tag} of group {group} in {name} was received before {earlier.tag} was finished"
                yield Finding(OUT_OF_LINE, words, (before.at, claim.at, *(c.at for c in earlier.claims[:2])))
                break


def _is_before(one: Sent, other: Sent) -> bool:
    """Whether it has the earlier place for certain: in one request, or answered before the other was sent."""
    return one.outcome == OK and one.stored is not False and (one.at == other.at or one.end < other.begin)


class Row(NamedTuple):
    """Of the ledger."""

    at: Place
    number: int
    queue: str
    outcome: str
    receives: int


_ENDS = frozenset({"processed", "expired", "failed", "purged", "collapsed"})


class Id:
    """What was seen under one id."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.tags: dict[str, Place] = {}
        self.touches: list[Touched] = []
        self.shipments: list[Claimed] = []
        self.rows: list[Row] = []
        self.left: list[tuple[Place, str]] = []
        self.claims: dict[str, set[str]] = {}


def of_id(seen: Id, world: World) -> Iterator[Finding]:
    if len(seen.tags) > 1:
        words = f"{seen.id} is the id of {' and of '.join(seen.tags)}"
        yield Finding(ID_TWICE, words, tuple(seen.tags.values())[:3])
    if not world.ledger_is_whole:
        return
    ends = [row for row in seen.rows if row.outcome in _ENDS]
    if len(ends) > 1:
        words = f"{seen.id} has ended {len(ends)} times: {', '.join(row.outcome for row in ends)}"
        yield Finding(LEDGER, words, tuple(row.at for row in ends[:2]))
    acks = [touch for touch in seen.touches if touch.op == "ack"]
    shipped = times_shipped(seen.shipments, seen.touches)
    certain = [ack.at for ack in acks if is_gone(ack, world, shipped)]
    if certain and not ends:
        yield Finding(LEDGER, f"{seen.id} was acked, and the ledger has no row for it", (certain[0],))
    if certain and ends and ends[0].outcome != "processed":
        yield Finding(LEDGER, f"{seen.id} was acked, and the ledger says {ends[0].outcome}", (certain[0], ends[0].at))
    for row in ends:
        if row.outcome == "processed" and not any(ack.may_have_happened for ack in acks):
            yield Finding(LEDGER, f"{seen.id} of {row.queue} was processed, and no one has acked it", (row.at,))
        if seen.left:
            words = f"{seen.id} has left {row.queue} as {row.outcome}, and is in {seen.left[0][1]}"
            yield Finding(LEDGER, words, (row.at, seen.left[0][0]))
        handed_out = len(seen.claims.get(row.queue, ()))
        if handed_out > row.receives:
            words = f"{seen.id} was received {handed_out} times from {row.queue}, and the ledger says {row.receives}"
            yield Finding(LEDGER, words, (row.at,))


def of_queue(queue: Queue, world: World) -> Iterator[Finding]:
    """Its counts, against how many messages clients have sent, acked and found in it."""
    for event in queue.counts:
        at = (event["client"], event["n"])
        total, arrived, departed = event["total"], event.get("arrived"), event.get("departed")
        left = queue.figures["left"]
        if queue.is_seen and total != left:
            yield Finding(TALLY, f"{queue.name} counts {total} messages, and {left} are there", (at,))
        if arrived is None or departed is None:
            continue
        if arrived - departed != total:
            words = f"{queue.name}: {arrived} have arrived and {departed} departed, and it counts {total}"
            yield Finding(TALLY, words, (at,))
        fewest, most = queue.figures["sent"], queue.figures["sent"] + queue.figures["perhaps sent"]
        if not fewest <= arrived or (arrived > most and not queue.may_gain):
            words = f"{queue.name}: {arrived} have arrived; {fewest} were sent, and at most {most}"
            yield Finding(TALLY, words, (at,))
        if departed < queue.figures["acked"]:
            words = f"{queue.name}: {departed} have departed; {queue.figures['acked']} were acked"
            yield Finding(TALLY, words, (at,))
        rows = queue.figures["rows"]
        if world.ledger_is_whole and queue.settings.get("ledger", "outcomes") != "off" and rows != departed:
            yield Finding(LEDGER, f"{queue.name}: {departed} have departed, and the ledger has {rows} rows", (at,))
