"""The end of a round: what clients find when the load has stopped. They drain queues, count, and read the ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from soak.apis import Mqcore, Native, read_messages
from soak.history import History, Recorder
from soak.plan import VISIBILITY_S, Plan
from soak.talk import Reply, Talk, Unanswered, Unreachable

_HOLD_S = 60
_LIMIT = 1_000


class Look:
    """Drains what there is, for `patience_s` at most, and notes what is left then."""

    def __init__(self, history: History, urls: list[str], plans: Sequence[Plan], patience_s: float = 30) -> None:
        self._history = history
        self._recorder: Recorder = history.recorder("look")
        self._talk = Talk(urls, timeout=60)
        self._plans = plans
        self._until = time.monotonic() + patience_s

    def take(self, *, ledger: bool = True, drains: bool = True) -> None:
        folders = [plan.name for plan in self._plans if plan.producers == ("mqcore",)]
        queues = [plan.name for plan in self._plans if plan.name not in folders]
        if folders:
            self._drain_folders(folders)
        # Again, if there was something: a dead letter, or what a move brings, may come to a queue after its turn.
        while drains and sum([self._drain(queue) for queue in queues]):
            pass
        for queue in queues:
            self._count(queue)
        if ledger:
            self._read_ledger()
        self._recorder.note("seen", queues=folders + queues, ledger=ledger)
        self._talk.close()

    def _ask(self, method: str, path: str) -> Reply:
        """Again and again: there are no more faults now, only servers that are still busy with the last one."""
        while True:
            try:
                reply = self._talk(method, path)
                if reply.status < 500:
                    return reply
            except (Unanswered, Unreachable):
                pass
            if time.monotonic() > self._until + 120:
                raise TimeoutError(f"{method} {path} gets no answer")
            time.sleep(0.05)

    def _total(self, queue: str) -> dict[str, Any]:
        reply = self._ask("GET", f"/v1/queues/{quote(queue, safe='')}")
        return {"count": {"total": 0}, "tally": None} if reply.status == 404 else reply.json

    def _drain(self, queue: str) -> bool:
        """Whether there may be more."""
        api = Native(self._talk, self._recorder)
        did = False
        while True:
            try:
                claimed = api.claim(queue, _LIMIT, _HOLD_S, 0)
            except Unreachable:
                time.sleep(0.05)
                continue
            if claimed:
                api.ack(queue, claimed)
                did = True
                continue
            if self._total(queue)["count"]["total"] == 0 or time.monotonic() > self._until:
                return did and time.monotonic() <= self._until
            time.sleep(0.05)

    def _drain_folders(self, queues: list[str]) -> None:
        """Here nothing says how many there are: until there was none for longer than one can be held."""
        api = Mqcore(self._talk, self._recorder)
        last = time.monotonic()
        while time.monotonic() < last + VISIBILITY_S + 1:
            for queue in queues:
                try:
                    claimed = api.claim(queue, 1, VISIBILITY_S, 0)
                except Unreachable:
                    claimed = []
                if claimed:
                    api.ack(queue, claimed)
                    last = time.monotonic()
            if time.monotonic() > last + 0.1:
                time.sleep(0.05)

    def _count(self, queue: str) -> None:
        found = self._total(queue)
        path = f"/v1/queues/{quote(queue, safe='')}/messages?limit={_LIMIT}"
        after = ""
        begin = time.monotonic()
        messages: list[list[str]] = []
        while found["count"]["total"]:
            page = self._ask("GET", path + after).json
            messages += [[tag, id] for tag, id, _, _ in read_messages(page["messages"])]
            if page["after"] is None or not page["messages"]:
                break
            after = f"&after={page['after']}"
        self._recorder.write(
            {"op": "left", "queue": queue, "begin": begin, "end": time.monotonic(), "messages": messages}
        )
        if found["tally"] is not None:
            self._recorder.note("count", queue, total=found["count"]["total"], **found["tally"])

    def _read_ledger(self) -> None:
        after: int | None = 0
        while after is not None:
            page = self._ask("GET", f"/v1/ledger?after={after}&limit=10000").json
            rows = [[r["number"], r["queue"], r["id"], r["outcome"], r["receives"]] for r in page["rows"]]
            if rows:
                self._recorder.note("ledger", rows=rows)
            after = page["after"]
