"""The bridge between an edge and the committer: what cannot be read ends it, and nothing else happens."""

from __future__ import annotations

from devtools.wire import Wire
from penstock.bridge.desk import Desk
from penstock.bridge.edge_end import EdgeEnd
from penstock.bridge.frames import HEADER, VERSION
from soak.fuzz.house import House

_CASES_IN_A_HOUSE = 1_000
_house: House | None = None
_cases = 0


def fuzz_bridge(data: bytes) -> None:
    """A case is a byte that says to which end, and whether it is the content of a frame; and the bytes."""
    global _house, _cases
    if _house is None or _cases % _CASES_IN_A_HOUSE == 0:
        if _house is not None:
            _house.close()
        _house = House()
    _cases += 1
    choice, content = data[0] if data else 0, data[1:]
    if choice & 1:
        content = HEADER.pack(len(content), 0, VERSION) + content
    loop = _house.loop
    if choice & 2:
        end: Desk | EdgeEnd = EdgeEnd(loop.loop, lambda _end: None)
    else:
        end = Desk(_house.committer.broker, loop.loop, lambda _desk: None)
    wire = Wire()
    end.connection_made(wire)  # type: ignore[arg-type]
    if isinstance(end, EdgeEnd):
        # Somebody waits for an answer.
        end.claim("orders", 1, None, 0, None).listen(lambda _messages: None, lambda _error: None)
    end.data_received(content)
    for _ in range(3):
        loop.turn()
    end.connection_lost(None)
    loop.turn()
