"""The HTTP edge: one request in is one answer out, and it is the request that anybody else would read.

Proxies and servers that disagree about where a request ends let one client put words into another's mouth. So the same
bytes are read by a strict reader of our own, and the edge must see just the requests that it sees: in one piece, in
many, and with headers that it has learnt before. What is not in the plain form may only be refused, except for the few
forms that the edge takes and the reader does not (`Read.is_open`).
"""

from __future__ import annotations

import re
from random import Random

from penstock.edge.connections import Connections
from penstock.edge.http import CONTINUE, Request, Response
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.router import BodyRule, Errors, Route, Router
from penstock.pending import Pending
from soak.fuzz.finding import expect
from soak.fuzz.house import Loop, Talker
from soak.fuzz.reading import Asked, Read, read_answers, read_requests

_DATE = re.compile(rb"\r\nDate: [^\r]*")
_BODY_LIMIT = 1 << 16
_SHORT_LIMIT = 64
_CUT_AT = 5
_PIECES = 6


class Edge:
    """A router that keeps the requests it gets."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.seen: list[Request] = []
        self.waiting: list[Pending[Response]] = []
        rule = BodyRule(_BODY_LIMIT)
        routes = (
            Route("GET", "/now", self.now, head=True),
            Route("POST", "/now", self.now, rule),
            Route("POST", "/later", self.later, rule),
            Route("POST", "/cut", self.now, BodyRule(_CUT_AT, cut=True)),
            Route("PUT", "/q/{name}", self.later, BodyRule(_SHORT_LIMIT)),
        )
        errors = Errors(self.refuse, self.refuse_method, refused=self.refuse_for)
        self.router = Router(routes, errors)
        self.connections = Connections(self.loop.loop, Timeouts(), EdgeLimits())

    def now(self, request: Request) -> Response:
        self.seen.append(request)
        return Response(200, b"%d %d " % (len(request.body), request.cut) + request.body)

    def later(self, request: Request) -> Pending[Response]:
        self.seen.append(request)
        self.waiting.append(Pending())
        return self.waiting[-1]

    def refuse(self, request: Request) -> Response:
        self.seen.append(request)
        return Response(404)

    def refuse_method(self, request: Request, _allowed: tuple[str, ...]) -> Response:
        self.seen.append(request)
        return Response(405)

    def refuse_for(self, request: Request | None, status: int, reason: str) -> Response:
        if request is not None and "escape" in reason:
            # The only such refusal of a request that was read to its end.
            self.seen.append(request)
        return Response(status)  # which of two faults is met first may depend on the pieces

    def settle(self) -> None:
        self.loop.turn()
        while self.waiting:
            for pending in self.waiting:
                pending.resolve(Response(201, b"later"))
            self.waiting.clear()
            self.loop.turn()

    def hear(self, pieces: list[bytes], settles: int = 0) -> tuple[list[Request], bytes]:
        """What the edge sees in these pieces, and what it says. Bits of `settles` say after which pieces it answers
        before the next one comes."""
        self.seen = []
        talker = Talker(self.loop, self.router, self.connections)
        for number, piece in enumerate(pieces):
            if talker.wire.reading:
                talker.say(piece)
            if settles >> number & 1 or not talker.wire.reading:
                self.settle()
        self.settle()
        written, seen = bytes(talker.wire.written), self.seen
        talker.hang_up()
        self.settle()
        expect(talker.wire.closed, "no deadline ends a connection")
        expect(len(self.connections) == 0, "a connection was not forgotten")
        expect(self.connections.bodies.held == 0, "the bytes of a body are still accounted for")
        return seen, _DATE.sub(b"", written.replace(CONTINUE, b""))


_edge: Edge | None = None
_cases = 0


def fuzz_edge(data: bytes) -> None:
    global _edge, _cases
    if _edge is None or _cases % 5_000 == 0:
        if _edge is not None:
            _edge.connections.stop_clock()
            _edge.loop.loop.close()
        _edge = Edge()
    _cases += 1
    edge = _edge
    choices, stream = data[:2], data[2:]
    read = read_requests(stream)
    seen, written = edge.hear([stream])
    _check(read, seen, written)

    random = Random(choices)
    cuts = sorted(random.randrange(len(stream) + 1) for _ in range(_PIECES))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    seen_in_pieces, written_in_pieces = edge.hear([piece for piece in pieces if piece], random.getrandbits(_PIECES))
    _compare("in pieces", seen, written, seen_in_pieces, written_in_pieces)

    if read.requests:
        # Each by itself, so that those whose headers are known are not parsed: the second time they are.
        starts = [0, *(asked.end for asked in read.requests)]
        alone = [stream[start:end] for start, end in zip(starts, [*starts[1:], len(stream)], strict=True)]
        for _ in range(3):
            seen_alone, written_alone = edge.hear([piece for piece in alone if piece], -1)
            _compare("one by one", seen, written, seen_alone, written_alone)


def _compare(how: str, seen: list[Request], written: bytes, again: list[Request], written_again: bytes) -> None:
    expect(
        [_meaning(one) for one in seen] == [_meaning(one) for one in again],
        f"{how}, the requests are others: {[_meaning(one) for one in seen]} and {[_meaning(one) for one in again]}",
    )
    expect(written == written_again, f"{how}, the answers are others: {written!r} and {written_again!r}")


def _meaning(request: Request) -> tuple[object, ...]:
    return request.method, request.path, request.query, request.headers, request.body, request.cut


def _check(read: Read, seen: list[Request], written: bytes) -> None:
    answers = read_answers(written, [request.method for request in seen])
    closed = bool(answers) and b"close" in answers[-1].headers.get(b"connection", b"")
    for answer in answers:
        expect(answer.status < 500 or answer.status == 501, f"answered {answer.status}")
    wanted = read.requests
    for asked, request in zip(wanted, seen, strict=False):
        _check_same(asked, request)
    told = f"{len(wanted)} requests, {len(seen)} seen, {[answer.status for answer in answers]}, {written[-300:]!r}"
    if closed and answers[-1].status == 413:
        # One with too long a body is refused by its head, and nothing behind it is read.
        expect(len(answers) == len(seen) + 1, f"a long body was not the last to be answered: {told}")
        whole = wanted[len(seen) : len(seen) + 1]
        expect(not whole or len(whole[0].body) > _SHORT_LIMIT, f"a body that fits was refused: {told}")
        return
    expect(len(answers) >= len(wanted), f"a request was not answered: {told}")
    expect(len(seen) >= len(wanted), f"what was sent is not what was seen: {told}")
    if wanted and wanted[-1].closes:
        expect(len(seen) == len(wanted) and closed, f"something was read behind the last request: {told}")
        return
    if read.is_open:
        return
    # What follows is not a whole request in the plain form: it may be refused, perhaps by its head, or waited for.
    if len(seen) == len(wanted) + 1 and read.begun is not None and closed and answers[-1].status >= 400:
        _check_same(read.begun, seen[-1])
        return
    expect(len(seen) == len(wanted), f"a request was seen that is none: {told} {[_meaning(one) for one in seen[-1:]]}")
    if len(answers) > len(wanted):
        expect(answers[-1].status >= 400 and closed, f"an answer to no request: {told}")


def _check_same(asked: Asked, request: Request) -> None:
    expect(asked.method == request.method, f"{asked.method} was read as {request.method}")
    path, _, query = asked.target.decode("latin-1").partition("?")
    expect((request.path, request.query) == (path, query), f"{asked.target!r} was read as {request.path!r}")
    meant = {name: b", ".join(values) for name, values in asked.headers.items()}
    expect(request.headers == meant, f"{meant} were read as {request.headers}")
    if request.cut:
        expect(request.body == asked.body[:_CUT_AT], "a body was cut off wrongly")
    elif request.body:
        # That of a refused request is not kept.
        expect(request.body == asked.body, f"{asked.body!r} was read as {request.body!r}")
