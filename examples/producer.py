"""Send a thousand orders in batches. Run it with consumer.py, before or after."""

import os

from penstock.client import Client, Draft, QueueExists

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")
BATCH = 100


def main() -> None:
    with Client(URL) as client:
        try:
            client.create_queue("orders", visibility_ms=60_000)
        except QueueExists:
            pass  # from an earlier run, or made by consumer.py

        for first in range(0, 1000, BATCH):
            orders = [Draft({"order": number, "lines": number % 7}) for number in range(first, first + BATCH)]
            # One request: all of a batch is stored, or nothing of it. When this returns, it is on disk.
            client.send_many("orders", orders)
        print("sent", client.queue("orders").count.total, "orders")


if __name__ == "__main__":
    main()
