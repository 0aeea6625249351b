"""Write every message of a queue into files, each exactly once, whatever is killed in between.

    python examples/shipment_to_file.py [QUEUE] [FOLDER]

Without them, the orders of producer.py are written into data/shipments.

The trick is the number. A shipment is claimed under a number, and the same number means the same messages until it is
settled. So: claim n, write the file named after n, settle n. Killed anywhere, run the program again: it writes the same
file once more. Two programs need two consumer names.
"""

import argparse
import json
import os
from pathlib import Path

from penstock.client import Client

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")
CONSUMER = "files"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue", nargs="?", default="orders")
    parser.add_argument("folder", nargs="?", default="data/shipments", type=Path)
    given = parser.parse_args()
    write_all(given.queue, given.folder)


def write_all(queue: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Client(URL) as client:
        client.ensure_queue(queue)
        while shipment := client.claim_shipment(client.next_shipment(queue, CONSUMER), limit=1000):
            target = folder / f"{queue}-{shipment.number:08}.jsonl"
            lines = (json.dumps({"id": m.id, "body": m.text}) + "\n" for m in client.read_shipment(shipment))
            with open(draft := target.with_suffix(".draft"), "w") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(target)  # replaces what an earlier attempt has left
            client.settle_shipment(shipment)
            print("wrote", target.name, "with", shipment.messages, "messages")


if __name__ == "__main__":
    main()
