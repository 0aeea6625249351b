"""An asyncio worker that handles up to fifty messages at a time, and stops cleanly on SIGTERM or Ctrl-C."""

import asyncio
import os
import sys

from penstock.client import AsyncClient, ClaimedMessage

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")


async def fetch(message: ClaimedMessage) -> None:
    """Anything that waits: an HTTP call, a query. The claim is renewed for as long as it takes."""
    await asyncio.sleep(0.01)


async def main() -> None:
    async with AsyncClient(URL) as client:
        await client.ensure_queue("pages")
        await client.send_many("pages", [f"https://example.com/{number}" for number in range(200)])

        worked = await client.work("pages", fetch, concurrency=50, until_empty="--until-empty" in sys.argv)
        print("fetched", worked.acked, "pages")


if __name__ == "__main__":
    asyncio.run(main())
