"""Messages that fail end in a dead-letter queue. Look at them there, fix the cause, and move them back."""

import os

from penstock.client import ClaimedMessage, Client

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080")


def broken(message: ClaimedMessage) -> None:
    raise RuntimeError(f"cannot handle {message.text}")


def fixed(message: ClaimedMessage) -> None:
    print("handled", message.text)


def main() -> None:
    with Client(URL) as client:
        client.ensure_queue("mail-dead")
        client.ensure_queue("mail", redrive={"max_receives": 1, "dead_letter_queue": "mail-dead"})
        client.send_many("mail", [{"to": "ada"}, {"to": "grace"}, {"to": "nowhere"}])

        # One failed delivery each; the next claim finds that it was their last and moves them.
        client.work("mail", broken, backoff_ms=0, until_empty=True)

        for message in client.peek("mail-dead").messages:
            print("dead:", message.text, "from", message.came_from)

        # Back to their queue, except for the one that can never work. The server does the move; follow_move watches it.
        for name in ("ada", "grace"):
            chosen = {"json": {"path": "$.to", "value": name}}
            *_, move = client.follow_move(client.redrive("mail-dead", **chosen).id, every_s=0.05)
            print("moved", move.moved, "back for", name)
        client.purge("mail-dead")

        client.work("mail", fixed, until_empty=True)


if __name__ == "__main__":
    main()
