"""Work through a queue with four threads. `--until-empty` stops when there is nothing left, Ctrl-C at any time."""

import os
import sys

from penstock.client import ClaimedMessage, Client, Discard, Retry

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")


def handle(message: ClaimedMessage) -> None:
    """Returning acks the message. An exception brings it back later, for this worker or another."""
    order = message.json
    if order["lines"] == 0:
        raise Discard("an order without lines: nothing to do, now or later")
    if order["lines"] == 6 and message.receives == 1:
        raise Retry("out of stock", delay_ms=200)
    # Your work goes here. It may see a message twice (the worker can be killed right before the ack),
    # so make its effect repeatable: write under the order's number, do not append.


def main() -> None:
    with Client(URL) as client:
        for name in ("orders-dead", "orders"):
            client.ensure_queue(name)
        # A message that fails five times is put aside instead of coming back forever.
        client.update_queue("orders", redrive={"max_receives": 5, "dead_letter_queue": "orders-dead"})

        worked = client.work("orders", handle, concurrency=4, limit=100, until_empty="--until-empty" in sys.argv)
        print(f"acked {worked.acked}, discarded {worked.discarded}, put off {worked.released}")


if __name__ == "__main__":
    main()
