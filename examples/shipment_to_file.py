"""Write every message of a queue into files, each exactly once, whatever is killed in between.

The trick is the number. A shipment is claimed under a number, and the same number is the same messages until it is
settled. So: claim n, write the file named after n, settle n. Killed anywhere, run the program again: it writes the same
file over the old one. Two programs need two consumer names.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")


def api(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer as JSON, or None for 204. Every other status but 2xx raises."""
    data = json.dumps(body or {}).encode() if method != "GET" else None
    request = urllib.request.Request(f"{URL}/v1{path}", data, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer) if answer.status != 204 else None


def next_number(shipments: str) -> int:
    """One after the latest that has ended, or the one that is still open."""
    listed = api("GET", f"{shipments}?consumer=files")["shipments"]
    if not listed:
        return 1
    latest = listed[-1]
    return latest["number"] if latest["state"] in ("open", "gathering") else latest["number"] + 1


def messages(shipment: str) -> list[dict[str, Any]]:
    """All of a shipment, page by page."""
    found: list[dict[str, Any]] = []
    while page := api("GET", f"{shipment}/messages?start={len(found)}")["messages"]:
        found += page
    return found


def main() -> None:
    queue, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    shipments = f"/queues/{queue}/shipments"
    number = next_number(shipments)
    while api("PUT", f"{shipments}/files/{number}", {"limit": 1000}):
        target = folder / f"{queue}-{number:08}.jsonl"
        shipped = messages(f"{shipments}/files/{number}")
        lines = [json.dumps({"id": message["id"], "body": message["body"]}) + "\n" for message in shipped]
        with open(draft := target.with_suffix(".draft"), "w") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)  # Replaces what an earlier attempt has left.
        api("POST", f"{shipments}/files/{number}/settle")
        print("wrote", target.name, "with", len(lines), "messages")
        number += 1


if __name__ == "__main__":
    main()
