"""Load on a server that may die at any moment, and the books of what it has promised."""

from __future__ import annotations

import http.client
import itertools
import threading

from tests.faces.mqs.conftest import PLAIN
from tests.talk import Talk

Lost = (OSError, http.client.HTTPException)


class Load:
    """Senders and receivers on one queue until the server is gone, or the load has `ended`.

    A promise is an answer: a send that was answered must be received, a delete that was answered must hold. A delete
    without an answer, or whose answer is 503, may have happened or not. On a slow machine a claim may run out before
    its message is deleted: then another receives it too, and the second to delete it is told 404.
    """

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.received: set[bytes] = set()
        self.deleted: set[bytes] = set()
        self.perhaps_deleted: set[bytes] = set()
        self.received_again: list[bytes] = []
        self.other_answers: list[int] = []
        self.ended = threading.Event()
        self._numbers = itertools.count()

    def run(self, url: str, senders: int, receivers: int) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._send, args=(url,)) for _ in range(senders)]
        threads += [threading.Thread(target=self._receive, args=(url,)) for _ in range(receivers)]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, url: str) -> None:
        with Talk(url) as talk:
            try:
                while not self.ended.is_set():
                    body = b"message %d " % next(self._numbers) + bytes(range(256)) * 4
                    status = talk("POST", "/messages/q", body).status
                    if status == 201:
                        self.sent.add(body)
                    else:
                        self.other_answers.append(status)
            except Lost:
                return

    def _receive(self, url: str) -> None:
        with Talk(url) as talk:
            try:
                while not self.ended.is_set():
                    self._receive_one(talk)
            except Lost:
                return

    def _receive_one(self, talk: Talk) -> None:
        reply = talk("GET", "/messages/q", x_mqs_max_wait_time="1")
        if reply.status != 200:
            if reply.status != 204:
                self.other_answers.append(reply.status)
            return
        self.received.add(reply.body)
        if reply.headers["X-MQS-MESSAGE-RECEIVES"] != "1":
            self.received_again.append(reply.body)
        self.perhaps_deleted.add(reply.body)
        status = talk("DELETE", f"/messages/{reply.headers['X-MQS-MESSAGE-ID']}").status
        if status == 204:
            # In this order, so that a look in between finds it in one of them.
            self.deleted.add(reply.body)
            self.perhaps_deleted.discard(reply.body)
        elif status != 404 or reply.body not in self.received_again:
            self.other_answers.append(status)


def create_queue(talk: Talk, visibility_timeout: int) -> None:
    assert talk("PUT", "/queues/q", {**PLAIN, "visibility_timeout": visibility_timeout}).status == 201


def drain(talk: Talk) -> list[bytes]:
    """Receive and delete until the queue is empty, claims included."""
    bodies = []
    while talk("GET", "/queues/q").json["status"]["messages"]:
        reply = talk("GET", "/messages/q", x_mqs_max_wait_time="2")
        if reply.status == 200:
            bodies.append(reply.body)
            assert talk("DELETE", f"/messages/{reply.headers['X-MQS-MESSAGE-ID']}").status == 204
    return bodies


def check(load: Load, left: list[bytes]) -> None:
    """Nothing promised is lost, nothing deleted comes back, nothing is there that was not sent."""
    assert load.sent - load.deleted - load.perhaps_deleted - set(left) == set()
    assert load.deleted & set(left) == set()
    assert len(left) == len(set(left))
    assert all(
        body.startswith(b"message ") and body.endswith(bytes(range(256)) * 4) for body in [*left, *load.received]
    )
