"""A client made from the document by the generator that docs/openapi.md names, at work against a real server."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.openapi.conftest import ROUTES
from tests.servers import ThreadServer

PACKAGE = "generated_client"
GENERATOR = Path(sys.executable).parent / "openapi-python-client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """The modules of the generated package, by their names in it."""
    folder = tmp_path_factory.mktemp("generated")
    server = ThreadServer(f"sqlite:///{folder}/penstock.db")
    document = folder / "openapi.json"
    try:
        # The generator would wait for it for five seconds only.
        with server.talk() as talk:
            document.write_bytes(talk("GET", "/openapi.json").body)
    finally:
        server.stop()
    command = [GENERATOR, "generate", "--path", document, "--meta", "none"]
    # It calls ruff, which stands beside it.
    environ = os.environ | {"PATH": f"{GENERATOR.parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        [*command, "--output-path", folder / PACKAGE], capture_output=True, text=True, check=False, env=environ
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "will not be generated" not in ended.stdout + ended.stderr
    assert "will be omitted" not in ended.stdout + ended.stderr
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    sys.path.remove(str(folder))


def test_every_operation_is_generated(generated: Callable[[str], ModuleType]) -> None:
    folder = Path(generated("client").__file__).parent
    made = [path for path in (folder / "api").glob("*/*.py") if path.name != "__init__.py"]
    assert len(made) == sum(1 + route.head for routes in ROUTES.values() for route in routes)


def test_no_class_has_a_made_up_name_for_a_message(generated: Callable[[str], ModuleType]) -> None:
    models = vars(generated("models"))
    assert {"ClaimedMessage", "Message", "SendMessage", "SentEach"} <= set(models)
    assert not [name for name in models if name.startswith(("ClaimedMessageType", "MessageType", "SendMessageType"))]


@pytest.fixture
def client(generated: Callable[[str], ModuleType], server: ThreadServer) -> Iterator[Any]:
    with generated("client").Client(base_url=server.url, timeout=httpx.Timeout(120)) as client:
        made = generated("api.mq_core.mqcore_create_queue").sync_detailed("orders", client=client)
        assert made.status_code == 201
        yield client


def test_the_native_api(generated: Callable[[str], ModuleType], client: Any) -> None:
    models = generated("models")
    send, claim, ack = (generated(f"api.native_messages.{name}").sync for name in ("send", "claim", "ack"))
    message = models.SendMessage(body="one", attributes=models.SendMessageAttributesType0.from_dict({"kind": "test"}))
    sent = send("orders", client=client, body=models.SendRequest(messages=[message]))
    claimed = claim("orders", client=client, body=models.ClaimRequest(limit=10)).messages
    assert [type(one).__name__ for one in claimed] == ["ClaimedMessage"]
    [one] = claimed
    assert (one.id, one.body, one.attributes.to_dict()) == (sent.sent[0].id, "one", {"kind": "test"})
    assert ack("orders", client=client, body=models.ReceiptsRequest(receipts=[one.receipt])).done == [True]


@pytest.mark.parametrize(
    ("send", "receive"), [("mqs.mqs_send", "mqs.mqs_receive"), ("mq_core.mqcore_send", "mq_core.mqcore_fetch")]
)
def test_apis_whose_messages_are_bytes(
    generated: Callable[[str], ModuleType], client: Any, send: str, receive: str
) -> None:
    body = b"any bytes\xff\0"
    file = generated("types").File(payload=BytesIO(body))
    assert generated(f"api.{send}").sync_detailed("orders", client=client, body=file).status_code == 201
    received = generated(f"api.{receive}").sync_detailed("orders", client=client)
    assert received.status_code == 200
    assert received.parsed.payload.read() == body
