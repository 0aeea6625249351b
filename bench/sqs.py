"""The SQS API: what its wire costs beside the native API, moto beside it, and groups with many messages behind.

moto answers each request on a connection of its own, which is how its server is run; `wrk` opens them as they are
closed. Everything that is compared is measured in turn.
"""

from __future__ import annotations

import http.client
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import servers
from bench.foundation import BODY, CONNECTIONS, folder
from bench.foundation import sends as mqs_sends
from bench.load import Load, wrk
from bench.measure import Effort, Result, absent, at_least, spread, told
from bench.peers.penstock import checked, is_whole, request
from bench.signing import Signer, signed_sends
from bench.wire import Step, Worker, drive
from penstock.clock import system_clock
from penstock.model import Draft, Groups, Settings
from penstock.stores import open_store

ROUNDS = 3
ACCOUNT = "000000000000"
QUEUE = "q.fifo"
# More than a server answers before a request comes up again that it has seen lately.
SIGNED = 50_000
BEHIND_MANY, BEHIND_FEW = 100_000, 100
HIDDEN_HEADS = 10
FREE_A_SECOND = 10_000
# As the SDKs always have them; nothing is verified where there are no API keys. moto knows the service by them.
ANY_CREDENTIALS = (
    "AWS4-HMAC-SHA256 Credential=any/20260101/eu-central-1/sqs/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={'0' * 64}"
)
_HIDDEN_MS = 12 * 60 * 60 * 1000
_AT_ONCE = 5_000
_WARM_UP_S = 1

SENDS = f"SendMessage in JSON, {CONNECTIONS} connections ÷ native single send"
SIGNED_SENDS = f"SendMessage in JSON with SigV4, {CONNECTIONS} connections ÷ native single send"
MQS_SENDS = f"SendMessage in JSON, {CONNECTIONS} connections ÷ mqs single send"
CYCLES = f"SendMessage, ReceiveMessage, DeleteMessage in JSON, {CONNECTIONS} connections ÷ moto, in memory"
FIFO = f"FIFO claim + ack with {BEHIND_MANY:,} behind hidden heads ÷ {BEHIND_FEW}"


def sqs(effort: Effort) -> Iterator[Result]:
    yield from sending(effort)
    yield from cycling(effort)
    yield fifo(effort)


def ask(url: str, method: str, path: str, body: object, headers: Mapping[str, str] = {}) -> dict[str, object]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)
    connection.request(method, path, json.dumps(body), headers or {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    assert 200 <= response.status < 300, (response.status, answer)
    return json.loads(answer) if answer else {}


def loaded(url: str, seconds: float, script: str, *words: str) -> Load:
    load = wrk(url, CONNECTIONS, seconds, script, *words)
    assert load.errors == 0, load.output
    return load


# Sends


def sends(turn: int, seconds: float) -> dict[str, float]:
    """A second, by each API. The one that signs has a server of its own: an API key closes all the others."""
    with folder() as path, servers.penstock(path) as (url, _):
        ask(url, "PUT", "/v1/queues/q", {})
        loads: list[tuple[str, Callable[[], Load]]] = [
            ("native", lambda: loaded(f"{url}/v1/queues/q/messages", seconds, "native_send")),
            ("sqs", lambda: loaded(url, seconds, "sqs_send", f"{url}/{ACCOUNT}/q", ANY_CREDENTIALS)),
            ("mqs", lambda: mqs_sends(url, CONNECTIONS, seconds)),
        ]
        mqs_sends(url, CONNECTIONS, _WARM_UP_S)
        # Another is first in every round.
        figures = {name: load().per_second for name, load in [*loads[turn:], *loads[:turn]]}
    with folder() as path, servers.penstock(path) as (url, _):
        ask(url, "PUT", "/v1/queues/q", {})
        key = ask(url, "POST", "/v1/keys", {"name": "load", "rules": ["queue|post|q"]})
        signer = Signer(str(key["aws_access_key_id"]), str(key["aws_secret_access_key"]), url.removeprefix("http://"))
        requests = path / "requests"
        requests.write_text("".join(signed_sends(signer, f"{url}/{ACCOUNT}/q", SIGNED, len(BODY))))
        loaded(url, _WARM_UP_S, "sqs_send_signed", str(requests))
        figures["signed"] = loaded(url, seconds, "sqs_send_signed", str(requests)).per_second
    return figures


def sending(effort: Effort) -> Iterator[Result]:
    measured = [sends(turn, effort.seconds) for turn in range(effort.rounds(ROUNDS))]

    def compared(over: str, under: str) -> tuple[float, str, dict[str, float]]:
        ratios = [one[over] / one[under] for one in measured]
        figures = {name: statistics.median(one[name] for one in measured) for name in (over, under)}
        return statistics.median(ratios), spread(ratios), figures

    ratio, note, figures = compared("sqs", "native")
    yield at_least(SENDS, 0.7, ratio, note, **figures)
    ratio, note, figures = compared("signed", "native")
    yield at_least(SIGNED_SENDS, 0.5, ratio, note, **figures)
    ratio, note, figures = compared("sqs", "mqs")
    yield told(MQS_SENDS, ratio, note, **figures)


# Cycles


def cycles(url: str, seconds: float) -> float:
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.CreateQueue",
        "Authorization": ANY_CREDENTIALS,
    }
    made = ask(url, "POST", "/", {"QueueName": "q"}, headers)
    return loaded(url, seconds, "sqs_cycle", str(made["QueueUrl"]), ANY_CREDENTIALS).per_second / 3


def cycling(effort: Effort) -> Iterator[Result]:
    if not servers.PEERS_PYTHON.exists():
        yield absent(CYCLES, "≥ 50", f"there is no {servers.PEERS_PYTHON.parent.parent.name}, which make bench sets up")
        return
    pairs = []
    for _ in range(effort.rounds(ROUNDS)):
        with folder() as path, servers.penstock(path) as (url, _):
            ours = cycles(url, effort.seconds)
        with servers.moto() as url:
            pairs.append((ours, cycles(url, effort.seconds)))
    ratios = [ours / theirs for ours, theirs in pairs]
    yield at_least(
        CYCLES,
        50,
        statistics.median(ratios),
        spread(ratios),
        penstock=statistics.median(ours for ours, _ in pairs),
        moto=statistics.median(theirs for _, theirs in pairs),
    )


# Groups


class Fifo:
    """Receives and deletes messages of a FIFO queue, one by one."""

    def __init__(self, queue_url: str) -> None:
        self._queue = queue_url

    def greet(self, connection: object, number: int) -> None:
        pass

    def work(self, number: int) -> Worker:  # noqa: ARG002
        receive = Step(self._request("ReceiveMessage", {}), is_whole)
        while True:
            answer = json.loads(checked((yield receive)).partition(b"\r\n\r\n")[2])
            if "Messages" not in answer:
                return
            receipt = answer["Messages"][0]["ReceiptHandle"]
            checked((yield Step(self._request("DeleteMessage", {"ReceiptHandle": receipt}), is_whole, 1)))

    def _request(self, operation: str, words: dict[str, str]) -> bytes:
        body = json.dumps({"QueueUrl": self._queue, **words}).encode()
        kind = "Content-Type: application/x-amz-json-1.0"
        return request("POST /", body, kind, f"X-Amz-Target: AmazonSQS.{operation}")


def fill(path: Path, behind: int, free: int) -> None:
    """Groups whose first messages are held, with that many messages behind them; and messages that may be claimed, each
    of a group of its own, which are younger than all of these."""
    store = open_store(f"sqlite:///{path}/penstock.db")

    def send(groups: list[str]) -> None:
        for start in range(0, len(groups), _AT_ONCE):
            drafts = [Draft(BODY, group=group) for group in groups[start : start + _AT_ONCE]]
            with store.unit() as unit:
                unit.send(QUEUE, drafts, system_clock())

    held = [f"held-{number}" for number in range(HIDDEN_HEADS)]
    with store.unit() as unit:
        unit.create_queue(QUEUE, Settings(visibility_ms=_HIDDEN_MS, groups=Groups.FIFO), system_clock())
    send(held)
    with store.unit() as unit:
        claimed = unit.claim(QUEUE, HIDDEN_HEADS, system_clock(), _HIDDEN_MS)
        assert len(claimed.messages) == HIDDEN_HEADS
    send([held[number % HIDDEN_HEADS] for number in range(behind)])
    send([f"free-{number}" for number in range(free)])
    store.close()


def claims(behind: int, free: int, seconds: float) -> float:
    with folder() as path:
        fill(path, behind, free)
        with servers.penstock(path) as (url, process):
            dialect = Fifo(f"{url}/{ACCOUNT}/{QUEUE}")
            return drive(servers.port_of(url), dialect, dialect.work, CONNECTIONS, seconds, process.pid).per_second


def fifo(effort: Effort) -> Result:
    many = effort.messages(BEHIND_MANY)
    free = round(FREE_A_SECOND * effort.seconds)
    pairs = []
    for turn in range(effort.rounds(ROUNDS)):
        behind = (many, BEHIND_FEW) if turn % 2 else (BEHIND_FEW, many)
        rates = {count: claims(count, free, effort.seconds) for count in behind}
        pairs.append((rates[many], rates[BEHIND_FEW]))
    ratios = [deep / shallow for deep, shallow in pairs]
    return at_least(
        FIFO,
        0.8,
        statistics.median(ratios),
        spread(ratios),
        many=statistics.median(deep for deep, _ in pairs),
        few=statistics.median(shallow for _, shallow in pairs),
    )


MEASURES = {"sqs": sqs}
