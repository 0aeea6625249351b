"""One process of those that race in `test_processes`: its books go to standard output as JSON."""

from __future__ import annotations

import json
import sys
import time

from penstock.vsqs import Queue


def main(path: str, role: str, name: str, count: int, watch: bool) -> None:
    books: dict[str, list[tuple[str, str]]] = {"published": [], "received": [], "deleted": []}
    with Queue(path, watch=watch) as queue:
        if role == "publisher":
            for number in range(count):
                body = f"{name}-{number}"
                books["published"].append((queue.publish(body.encode()), body))
        else:
            while True:
                id_, body = queue.receive(visibility_timeout=600, timeout=60)
                if id_ is None:
                    break
                if body == b"die":
                    # Holding a claim, like a consumer that was killed.
                    break
                if body == b"end":
                    queue.delete(id_)
                    break
                books["received"].append((id_, body.decode()))
                if len(books["received"]) % 7 == 0:
                    time.sleep(0.001)
                assert queue.delete(id_)
                books["deleted"].append((id_, body.decode()))
    sys.stdout.write(json.dumps(books))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "watched")
