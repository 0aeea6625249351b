"""Requests are read and answered without a look at them: what the sockets alone cost."""

from __future__ import annotations

import asyncio
import sys

import uvloop

# As long as an answer of ours.
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Filled: " + b"x" * 60 + b"\r\n\r\n"


class _Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, _data: bytes) -> None:
        self._write(_ANSWER)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
