"""Both generations of the SDK against a fresh server: a test that takes `sqs` runs once with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers import ThreadServer
from tests.sqs_clients.environments import GENERATIONS
from tests.sqs_clients.sdk import Sdk, Sqs


@pytest.fixture(scope="session")
def sdk_of() -> Iterator[Callable[[str], Sdk]]:
    """The SDK that speaks a protocol; the process is kept for the tests that follow."""
    started: dict[str, Sdk] = {}

    def find(protocol: str) -> Sdk:
        if protocol not in started:
            started[protocol] = Sdk(GENERATIONS[protocol])
        return started[protocol]

    yield find
    for sdk in started.values():
        sdk.close()


@pytest.fixture(params=GENERATIONS)
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def sdk(sdk_of: Callable[[str], Sdk], protocol: str) -> Sdk:
    return sdk_of(protocol)


@pytest.fixture
def sqs(sdk: Sdk, server: ThreadServer) -> Sqs:
    return sdk.connect(server.url)


@pytest.fixture
def create(sqs: Sqs) -> Callable[..., str]:
    """Create a queue with attributes as keywords; its URL. A name that ends in `.fifo` makes it one."""

    def make(name: str, **attributes: object) -> str:
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        given = {"Attributes": {key: str(value) for key, value in attributes.items()}} if attributes else {}
        return sqs.create_queue(QueueName=name, **given)["QueueUrl"]

    return make


@pytest.fixture
def attributes_of(sqs: Sqs) -> Callable[..., dict[str, str]]:
    def ask(url: str, *names: str) -> dict[str, Any]:
        return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"]).get("Attributes", {})

    return ask
