"""Send a thousand orders in batches. Running it twice stores them once. Run consumer.py beside it or afterwards."""

import os

from penstock.client import Client, Patience

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")
BATCH = 100


def main() -> None:
    # A server that is away is tried again for up to a minute.
    with Client(URL, patience=Patience(60)) as client:
        client.ensure_queue("orders", visibility_ms=60_000)
        stored = 0
        for first in range(0, 1000, BATCH):
            orders = [{"order": number, "lines": number % 500} for number in range(first, first + BATCH)]
            # One request: the whole batch is stored, or nothing. The key makes it safe to repeat it after a lost
            # answer. When this returns, the batch is on disk.
            sent = client.send_once("orders", orders, key=f"orders-of-today-{first}")
            stored += 0 if sent.repeated else sent.stored
        print("stored", stored, "orders")


if __name__ == "__main__":
    main()
