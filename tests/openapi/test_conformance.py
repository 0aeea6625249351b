"""Schemathesis asks a real server all that the document allows and much that it does not: whatever the server answers
is in the document, and nothing makes it fail.

Every operation has a server of its own, with a queue `orders` in use. The examples are the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.faces.native.arrow import ARROW_MEDIA as ARROW
from penstock.faces.openapi import build
from penstock.timings import Timings
from tests.openapi.conftest import ROUTES
from tests.servers import ThreadServer

# Hypothesis tells this by the generator that all threads of the process share: the threads of others count as well.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
CONFIG = {
    "seed": 1,
    "request-timeout": 120,
    "generation": {
        "deterministic": True,
        "max-examples": 6,
        "with-security-parameters": False,
        "allow-extra-parameters": False,  # which the APIs of the documents ignore
    },
    # That a method is not known is the router's business, and tested there.
    "checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}},
    "phases": {"coverage": {"unexpected-methods": ["trace"]}},
}
# What is there, by the name of the parameter that may ask for it.
THERE = {"queue": "orders", "name": "orders", "queue_or_id": "orders", "consumer": "lake", "number": 1}
# These ask for what is not there yet, or for an id.
CREATES = {"PUT /queues/{name}", "PUT /v1/queues/{queue}", "DELETE /messages/{queue_or_id}"}
MESSAGES = [
    {"body": "text", "content_type": "text/plain", "attributes": {"kind": "test"}},
    {"body": '{"order": 1}', "content_type": "application/json"},
    {"body_base64": "/wD+"},
    {"body": "", "content_type": "not a content type"},
    {"body": "late", "delay_ms": 100_000},
    *[{"body": f"message {number}"} for number in range(40)],
]


def stream(**columns: list[Any]) -> bytes:
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def damaged(whole: bytes) -> some.SearchStrategy[bytes]:
    """The stream with one byte changed, or cut off."""
    at = some.integers(0, len(whole) - 1)
    changed = some.builds(
        lambda where, value: whole[:where] + bytes([value]) + whole[where + 1 :], at, some.integers(0, 255)
    )
    return changed | at.map(lambda where: whole[:where])


_SENT = stream(body=[b"one", b"\xff"], content_type=["text/plain", None], delay_ms=[None, 5])
_ACKED = stream(receipt=["01980f3e-8a51-7c3a-8000-000000000001.1"])
_WHOLE = some.sampled_from([_SENT, _ACKED, stream(body=["text"]), stream(other=[1]), stream(body=[1])])
schemathesis.openapi.media_type(ARROW, _WHOLE | damaged(_SENT) | damaged(_ACKED) | some.binary())
_LINE = some.sampled_from([b'{"body": "one"}', b'{"body_base64": "/w=="}', b"", b"{}", b"[", b'{"body": 1}', b"\xff"])
schemathesis.serializer.alias("application/x-amz-json-1.0", "application/json")
schemathesis.openapi.media_type("application/x-ndjson", some.lists(_LINE).map(b"\n".join) | some.binary())


@pytest.fixture
def timings() -> Timings:
    """Of a server that waits for its store when it is asked for its health."""
    return Timings(probe_s=60)


@pytest.fixture
def url(server: ThreadServer) -> str:
    """Of a server with messages in every state."""
    with server.talk() as talk:
        # Visible at once again: a receive never has to wait.
        assert talk("PUT", "/v1/queues/orders", {"ledger": "bodies", "visibility_ms": 0}).status == 201
        assert talk("POST", "/v1/queues/orders/messages", {"messages": MESSAGES}).status == 201
        claimed = talk("POST", "/v1/queues/orders/claim", {"limit": 8, "hold_ms": 60_000}).json["messages"]
        receipts = [message["receipt"] for message in claimed[:4]]
        assert talk("POST", "/v1/queues/orders/ack", {"receipts": receipts}).json == {"done": [True] * 4}
        assert talk("PUT", "/v1/queues/orders/shipments/lake/1", {"limit": 5}).status == 201
        assert talk("PUT", "/v1/ledger/exports/lake/1").status == 201
        assert talk("PUT", "/v1/queues/orders/leases/orders", {"holder": "me", "hold_ms": 60_000}).status == 200
        assert talk("POST", "/dedupq/1/orders/sendbatch", [1, 1.0, "x", None]).status == 200
    return server.url


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def chosen(case: schemathesis.Case, one_in: int) -> bool:
    """A choice that is the same in every run."""
    asked = (case.path_parameters, case.query, case.headers, case.body)
    return crc32(repr(asked).encode()) % one_in == 0


def bring_home(case: schemathesis.Case) -> None:
    """Half of what is asked for by a random name becomes what is there: otherwise all answers would be 404."""
    path = case.meta.components.get(ParameterLocation.PATH)
    if path is None or path.mode.is_negative or case.operation.label in CREATES or not chosen(case, 2):
        return
    for name in case.path_parameters.keys() & THERE:
        case.path_parameters[name] = THERE[name]


def do_not_wait(case: schemathesis.Case) -> None:
    """A claim that may wait is as good here as one that does not."""
    if isinstance(case.body, dict) and type(case.body.get("wait_ms")) is int and 0 < case.body["wait_ms"] <= 60_000:
        case.body["wait_ms"] = 1


@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
def conforms(case: schemathesis.Case, url: str, session: requests.Session) -> None:
    accept = {"Accept": ARROW} if chosen(case, 3) else {}
    bring_home(case)
    do_not_wait(case)
    case.validate_response(case.call(base_url=url, session=session, headers=accept), checks=CHECKS)


def without_large_counts(part: Any) -> Any:
    """Ten thousand of something take long to make; such limits are tested with the faces."""
    if isinstance(part, dict):
        kept = {name: value for name, value in part.items() if name != "maxItems"}
        return {name: without_large_counts(value) for name, value in kept.items()}
    return [without_large_counts(one) for one in part] if isinstance(part, list) else part


# A test for each operation, called after it. HEAD is answered by the handlers of GET.
for _routes in ROUTES.values():
    _document = without_large_counts(build(_routes))
    _schema = schemathesis.openapi.from_dict(_document, config=schemathesis.Config.from_dict(CONFIG))
    for _methods in _document["paths"].values():
        for _method, _operation in _methods.items():
            if _method != "head":
                _id = _operation["operationId"]
                globals()[f"test_{_id}"] = _schema.include(operation_id=_id).parametrize()(conforms)


def test_every_route_is_asked() -> None:
    tests = [name for name in globals() if name.startswith("test_")]
    assert len(tests) - 1 == sum(map(len, ROUTES.values()))
