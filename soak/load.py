"""A mixed load through all APIs, by threads that go on whatever happens to the servers; and the look at the end."""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections.abc import Sequence
from random import Random
from urllib.parse import quote

from soak.apis import APIS, Api, Delivery, Native
from soak.history import OK, PERHAPS, Event, History
from soak.plan import VISIBILITY_S, Plan
from soak.shipments import Shipper
from soak.talk import Talk, Unanswered, Unreachable

# While servers are away.
_PAUSE_S = 0.02
_GROUP_LENGTH = 30


class Load:
    """Producers and consumers, each a thread with one file in the history. `urls` may change meanwhile."""

    def __init__(
        self,
        history: History,
        urls: list[str],
        seed: int,
        plans: Sequence[Plan],
        *,
        producers: int = 3,
        consumers: int = 4,
        most_backlog: int = 20_000,
        holds_s: tuple[float, ...] = (1, 2, 3),
        timeout_s: float = 30,
        name: str = "",
    ) -> None:
        self.history = history
        self.urls = urls
        self.plans = list(plans)
        self.holds_s = holds_s
        self.timeout_s = timeout_s
        self._seed = seed
        self._name = name
        self._sizes = producers, consumers
        self._most_backlog = most_backlog
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._workers: list[Producer | Consumer] = []
        self._names = itertools.count(1)
        self.errors: list[str] = []

    def make_queues(self) -> None:
        """Before the first fault, in a server that answers."""
        talk = Talk(self.urls)
        for plan in self.plans:
            if plan.settings is not None:
                reply = talk("PUT", f"/v1/queues/{quote(plan.name, safe='')}", plan.settings)
                assert reply.status in (201, 409), reply
            elif plan.producers == ("mqcore",):
                reply = talk("PUT", f"/{plan.name}")
                assert reply.status == 201, reply
            self.history.note("queue", plan.name, settings=plan.known_settings())
        talk.close()

    def start(self) -> None:
        self._stop.clear()
        producers, consumers = self._sizes
        for make in [Producer] * producers + [Consumer] * consumers:
            number = next(self._names)
            worker = make(
                self, f"{self._name}{make.__name__[0].lower()}{number}", Random(f"{self._seed}/{number}"), number
            )
            self._workers.append(worker)
            self._threads.append(threading.Thread(target=self._run, args=(worker,), daemon=True))
            self._threads[-1].start()

    def _run(self, worker: Producer | Consumer) -> None:
        try:
            while not self._stop.is_set():
                try:
                    worker.step()
                except Unreachable:
                    self._stop.wait(_PAUSE_S)
        except Exception:
            self.errors.append(f"{worker.name}:\n{traceback.format_exc()}")
        finally:
            worker.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self.errors:
            raise RuntimeError(f"the load itself has failed:\n{self.errors[0]}")

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self._stop.set()

    @property
    def sent(self) -> int:
        return sum(worker.sent for worker in self._workers)

    @property
    def acked(self) -> int:
        return sum(worker.acked for worker in self._workers)

    @property
    def is_crowded(self) -> bool:
        return self.sent - self.acked > self._most_backlog


class _Worker:
    def __init__(self, load: Load, name: str, random: Random, number: int) -> None:
        self.name = name
        self.sent = 0
        self.acked = 0
        self._load = load
        self._random = random
        self._recorder = load.history.recorder(name)
        self._first = number
        self._apis: dict[str, Api] = {}

    def _api(self, names: Sequence[str]) -> Api:
        name = self._random.choice(names)
        if name not in self._apis:
            talk = Talk(self._load.urls, self._first, self._load.timeout_s)
            self._apis[name] = APIS[name](talk, self._recorder)
        return self._apis[name]

    def _plan(self, plans: list[Plan]) -> Plan:
        return self._random.choices(plans, [plan.weight for plan in plans])[0]

    def close(self) -> None:
        for api in self._apis.values():
            api.talk.close()


class Producer(_Worker):
    """Sends one request after another, so that its messages have an order. Each is sent once, except with a key and
    where twins are wanted."""

    def __init__(self, load: Load, name: str, random: Random, number: int) -> None:
        super().__init__(load, name, random, number)
        self._numbers = itertools.count(1)
        self._plans = [plan for plan in load.plans if plan.producers]
        self._twins: dict[str, list[str]] = {}
        # A send with a key that was not answered: queue, tags, size, key.
        self._again: tuple[str, list[str], int, str] | None = None

    def step(self) -> None:
        if self._again is not None:
            self._repeat(*self._again)
            return
        if self._load.is_crowded:
            time.sleep(_PAUSE_S)
            return
        plan = self._plan(self._plans)
        api = self._api(plan.producers)
        if plan.in_bulk and self._random.random() < 0.8:
            count = self._random.randint(api.most // 2, api.most)
        else:
            count = min(self._random.choice((1, 1, 1, 5, 20)), api.most)
        tags = [f"{self.name}-{next(self._numbers)}" for _ in range(count)]
        size = self._random.choice((0, 20, 100, 100, 1_000, 20_000 if count < 5 else 100))
        if plan.has_twins:
            tags = self._with_twin(plan.name, tags)
        if plan.in_bulk and isinstance(api, Native) and self._random.random() < 0.3:
            self._repeat(plan.name, tags, size, f"key-{tags[0]}")
            return
        group = None
        if plan.has_groups:
            group = f"{self.name}.{self._random.randint(0, 2)}.{int(tags[0].rpartition('-')[2]) // _GROUP_LENGTH}"
        self._count(api.send(plan.name, tags, size, group))

    def _with_twin(self, queue: str, tags: list[str]) -> list[str]:
        sent = self._twins.setdefault(queue, [])
        if sent and self._random.random() < 0.3:
            return [self._random.choice(sent)]
        sent.extend(tags)
        del sent[:-50]
        return tags

    def _repeat(self, queue: str, tags: list[str], size: int, key: str) -> None:
        api = self._api(("native",))
        assert isinstance(api, Native)
        self._again = queue, tags, size, key
        event = api.send(queue, tags, size, key=key)
        if event["outcome"] != PERHAPS:
            self._again = None
        self._count(event)

    def _count(self, event: Event) -> None:
        if event["outcome"] == OK:
            self.sent += len(event["messages"]) if "stored" not in event else sum(event["stored"])


class Consumer(_Worker):
    """Claims, and acks most of it; renews, gives back or forgets the rest."""

    def __init__(self, load: Load, name: str, random: Random, number: int) -> None:
        super().__init__(load, name, random, number)
        self._plans = [plan for plan in load.plans if plan.consumers]
        self._bulk = [plan.name for plan in load.plans if plan.in_bulk]
        self._moving = [plan for plan in load.plans if plan.moves_to]
        self._attempts = itertools.count(1)
        # An attempt that was not answered: queue, limit, hold, its name.
        self._again: tuple[str, int, float, str] | None = None
        self._shipper: Shipper | None = None

    def step(self) -> None:
        chance = self._random.random()
        if self._shipper is not None and self._shipper.is_open:
            self.acked += self._shipper.step()
            return
        if self._again is not None:
            self._attempt(*self._again)
        elif self._bulk and chance < 0.04:
            self._ship()
        elif self._moving and chance < 0.05:
            self._move(self._random.choice(self._moving))
        else:
            self._claim()

    def _claim(self) -> None:
        plan = self._plan(self._plans)
        api = self._api(plan.consumers)
        limit = self._random.choice((10, api.most, api.most)) if plan.in_bulk else self._random.choice((1, 1, 5, 10))
        hold_s = self._random.choice(self._load.holds_s) if api.chooses_hold else VISIBILITY_S
        if isinstance(api, Native) and self._random.random() < 0.3:
            self._attempt(plan.name, limit, hold_s, f"{self.name}/{next(self._attempts)}")
            return
        wait_s = 1.0 if self._random.random() < 0.1 else 0.0
        self._finish(plan.name, api, api.claim(plan.name, limit, hold_s, wait_s), hold_s, plan.is_unlucky)

    def _attempt(self, queue: str, limit: int, hold_s: float, name: str) -> None:
        api = self._api(("native",))
        assert isinstance(api, Native)
        self._again = queue, limit, hold_s, name
        claimed = api.claim(queue, limit, hold_s, 0.0, attempt=name)
        # Nothing may also mean that it was not answered; then it is asked once more, or once too often.
        if claimed or self._random.random() < 0.5:
            self._again = None
        self._finish(queue, api, claimed, hold_s, is_unlucky=False)

    def _finish(self, queue: str, api: Api, claimed: list[Delivery], hold_s: float, is_unlucky: bool) -> None:
        if not claimed:
            return
        chance = self._random.random() * (0.25 if is_unlucky else 1.0)
        if chance < 0.03:
            return  # its worker has died
        if chance < 0.10 and api.can_release:
            api.release(queue, claimed)
            return
        if chance < 0.15 and api.can_renew:
            api.renew(queue, claimed[:5], hold_s)
        if chance < 0.25:
            claimed = claimed[: self._random.randint(1, len(claimed))]
        if api.ack(queue, claimed)["outcome"] == OK:
            self.acked += len(claimed)

    def _ship(self) -> None:
        if self._shipper is None:
            api = self._api(("native",))
            self._shipper = Shipper(api.talk, self._recorder, self._bulk[0], f"lake-{self.name}", self._random)
        self._shipper.step()

    def _move(self, plan: Plan) -> None:
        talk = self._api(("native",)).talk
        talk.connect()
        event = self._recorder.begin("move", plan.name, target=plan.moves_to, api="native")
        try:
            reply = talk("POST", "/v1/moves", {"source": plan.name, "target": plan.moves_to})
        except (Unanswered, Unreachable):
            self._recorder.end(event, PERHAPS)
            return
        outcome = OK if reply.status == 201 else "refused" if reply.status < 500 else PERHAPS
        self._recorder.end(event, outcome, status=reply.status)
