"""An AWS SDK in another environment, as if it were here: a test calls `sqs.send_message(…)` and gets what boto3 got."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tests.sqs_clients.environments import PROGRAMS, REGION, environ, program


class SdkError(Exception):
    """What the SDK has raised. `kind` is its class in `client.exceptions`, or None where that has none for it."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.kind: str | None = told["kind"]
        self.text: str = told["text"]
        # Of what never left the SDK there is no more than that.
        self.code: str | None = told.get("code")
        self.fault: str | None = told.get("fault")
        self.status: int | None = told.get("status")
        self.request_id: str | None = told.get("request_id")


class Sdk:
    """One process with boto3, for as many servers and credentials as tests want."""

    def __init__(self, environment: str) -> None:
        command = [program(environment, "python"), str(PROGRAMS / "boto.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ()
        )
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def ask(self, verb: str, **words: object) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = future
            self._process.stdin.write(json.dumps([number, verb, words], default=_encoded) + "\n")
            self._process.stdin.flush()
        return future

    def connect(self, url: str, key: str = "any", secret: str = "thing", **more: object) -> Sqs:
        credentials = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        number = self.ask("connect", endpoint_url=url, region_name=REGION, **credentials, **more).result()
        return Sqs(self, number)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            reply = json.loads(line, object_hook=_decoded)
            asked = self._asked.pop(reply["number"])
            if "error" in reply:
                asked.set_exception(SdkError(reply["error"]))
            elif "failure" in reply:
                asked.set_exception(AssertionError(reply["failure"]))
            else:
                asked.set_result(reply["result"])
        for asked in self._asked.values():
            asked.set_exception(AssertionError("the process with the SDK has ended"))


class Sqs:
    """boto3's client for SQS: its methods, by their names."""

    def __init__(self, sdk: Sdk, number: int) -> None:
        self._sdk, self._number = sdk, number
        # How often the last call was tried, and the id of its answer.
        self.attempts = 0
        self.request_id = ""

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        return partial(self._call, method)

    def _call(self, method: str, **arguments: object) -> dict[str, Any]:
        done = self.begin(method, **arguments).result()
        self.attempts, self.request_id = done["attempts"], done["request_id"]
        return done["answer"]

    def begin(self, method: str, **arguments: object) -> Future[Any]:
        """A call whose end the test does not wait for; see `answer_of`."""
        return self._sdk.ask("call", client=self._number, method=method, arguments=arguments)

    def pages(self, method: str, **arguments: object) -> list[dict[str, Any]]:
        return self._sdk.ask("pages", client=self._number, method=method, arguments=arguments).result()

    def presigned(self, url: str, **parameters: str) -> str:
        """The URL of a GET of the query protocol, signed in advance."""
        return self._sdk.ask("presign", client=self._number, url=url, parameters=parameters).result()

    def operations(self) -> list[str]:
        """All that the SDK knows of."""
        return self._sdk.ask("model", client=self._number).result()["operations"]

    def kind(self, name: str | None) -> str | None:
        """The same, if the SDK has a class for that error. Older ones lack some."""
        return name if name in self._sdk.ask("model", client=self._number).result()["errors"] else None


def answer_of(begun: Future[Any]) -> dict[str, Any]:
    return begun.result()["answer"]


def refusal(method: Callable[..., object], **arguments: object) -> SdkError:
    """The error that a call is expected to end with."""
    try:
        answer = method(**arguments)
    except SdkError as error:
        return error
    raise AssertionError(f"it was not refused: {answer}")


def _encoded(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(type(value).__name__)


def _decoded(found: dict[str, Any]) -> object:
    return base64.b64decode(found["bytes"]) if found.keys() == {"bytes"} else found
