"""API keys and real clients: what they sign is verified, with both generations of boto3, `aws` and Celery."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import ServerProcess, ThreadServer
from tests.sqs_clients.command import aws_sqs
from tests.sqs_clients.sdk import Sdk, Sqs, refusal
from tests.sqs_clients.workers import Celery
from tests.waiting import wait_until

PENSTOCK = [sys.executable, "-m", "penstock"]


class Credentials(NamedTuple):
    """Of an API key: what an AWS SDK takes, and the secret that all other APIs take."""

    key: str
    secret: str
    bearer: str

    @property
    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}


Keys = Callable[..., Credentials]


@pytest.fixture
def keys(server: ThreadServer) -> Iterator[Keys]:
    """Make API keys; the first of them may do everything, and makes the others."""
    with server.talk() as talk:

        def create(name: str, *rules: str, bearer: str | None) -> Credentials:
            headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
            reply = talk("POST", "/v1/keys", {"name": name, "rules": list(rules)}, **headers)
            assert reply.status == 201, reply.body
            made = reply.json
            assert made["aws_access_key_id"] == name
            return Credentials(name, made["aws_secret_access_key"], made["secret"])

        admin = create("admin", "queue|*|*", bearer=None)

        def make(name: str = "admin", *rules: str) -> Credentials:
            return create(name, *rules, bearer=admin.bearer) if rules else admin

        yield make


@pytest.fixture
def signed(sdk: Sdk, server: ThreadServer) -> Callable[[Credentials], Sqs]:
    return lambda credentials: sdk.connect(server.url, credentials.key, credentials.secret)


Signed = Callable[[Credentials], Sqs]


def test_what_is_signed_with_the_right_secret_is_done(keys: Keys, signed: Signed) -> None:
    sqs = signed(keys())
    url = sqs.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    # Bodies and names that a signature could trip over.
    body = "naïve ☃ +%20&=\r\n"
    sqs.send_message(
        QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId="!\"#$%&'()*+,-./:;<=>?@"
    )
    [message] = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert message["Body"] == body
    assert message["Attributes"]["SenderId"] == "admin"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.list_queues(QueueNamePrefix="jobs") == {"QueueUrls": [url]}


def test_a_wrong_secret_is_refused(keys: Keys, signed: Signed) -> None:
    refused = refusal(signed(keys()._replace(secret="wrong")).list_queues)
    assert (refused.code, refused.status) == ("SignatureDoesNotMatch", 403)


def test_the_secret_of_the_other_apis_does_not_sign(keys: Keys, signed: Signed) -> None:
    admin = keys()
    assert refusal(signed(admin._replace(secret=admin.bearer)).list_queues).code == "SignatureDoesNotMatch"


def test_an_unknown_key_is_refused(keys: Keys, signed: Signed) -> None:
    refused = refusal(signed(keys()._replace(key="stranger")).list_queues)
    assert (refused.code, refused.status) == ("InvalidClientTokenId", 403)


def test_a_key_does_what_its_rules_permit(keys: Keys, signed: Signed) -> None:
    admin = signed(keys())
    urls = [admin.create_queue(QueueName=name)["QueueUrl"] for name in ("mail", "orders")]
    sender = signed(keys("sender", "queue|post|orders"))
    assert sender.get_queue_url(QueueName="orders") == {"QueueUrl": urls[1]}
    sender.send_message(QueueUrl=urls[1], MessageBody="x")
    for refused in (
        refusal(sender.receive_message, QueueUrl=urls[1]),
        refusal(sender.send_message, QueueUrl=urls[0], MessageBody="x"),
        refusal(sender.create_queue, QueueName="new"),
        refusal(sender.delete_queue, QueueUrl=urls[1]),
    ):
        assert (refused.code, refused.status) == ("AccessDenied", 403)
    # A worker of Celery asks for this list before anything else.
    assert sender.list_queues() == {}
    watcher = signed(keys("watcher", "queue|get_status|mail"))
    assert watcher.list_queues() == {"QueueUrls": urls[:1]}


def test_a_revoked_key_is_an_unknown_one(keys: Keys, signed: Signed, server: ThreadServer) -> None:
    admin, other = keys(), keys("other", "queue|*|*")
    sqs = signed(other)
    sqs.create_queue(QueueName="jobs")
    with server.talk() as talk:
        assert talk("DELETE", "/v1/keys/other", authorization=f"Bearer {admin.bearer}").status in (200, 204)
    assert refusal(sqs.list_queues).code == "InvalidClientTokenId"


def test_a_url_that_was_signed_in_advance(keys: Keys, signed: Signed) -> None:
    """For a program that has neither an SDK nor a key."""
    sqs = signed(keys())
    queue = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    url = sqs.presigned(queue, Action="ReceiveMessage", Version="2012-11-05", MaxNumberOfMessages="1")
    with urllib.request.urlopen(url) as answer:
        assert b"<Body>hello</Body>" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url.replace("MaxNumberOfMessages=1", "MaxNumberOfMessages=10"))


def test_the_command_aws_signs(keys: Keys, server: ThreadServer) -> None:
    def aws(credentials: Credentials, *words: str) -> subprocess.CompletedProcess[str]:
        return aws_sqs(server.url, *words, **credentials.variables)

    admin = keys()
    made = aws(admin, "create-queue", "--queue-name", "jobs")
    assert json.loads(made.stdout) == {"QueueUrl": f"{server.url}/000000000000/jobs"}
    assert "(SignatureDoesNotMatch)" in aws(admin._replace(secret="wrong"), "list-queues").stderr
    assert "(InvalidClientTokenId)" in aws(admin._replace(key="stranger"), "list-queues").stderr
    weak = keys("weak", "queue|post|mail")
    assert "(AccessDenied)" in aws(weak, "receive-message", "--queue-url", f"{server.url}/000000000000/jobs").stderr


def test_celery_signs(keys: Keys, server: ThreadServer, tmp_path: Path) -> None:
    """Everything it needs, and on its own queue alone."""
    worker = keys("celery", *(f"queue|{action}|celery-*" for action in ("post", "poll", "get_status", "admin")))
    folder = tmp_path / "celery"
    folder.mkdir()
    celery = Celery(folder, server.url, worker.key, worker.secret)
    try:
        celery.publish("plain.delay('signed'); stubborn.delay('again')")
        celery.work()
        celery.wait_for("done", 2)
    finally:
        celery.stop()
    assert sorted(celery.lines("done")) == ["again", "signed"]


def test_the_command_line_prints_what_an_sdk_takes(serve: type[ServerProcess], sdk: Sdk, tmp_path: Path) -> None:
    """`penstock key create --aws`, in the words that a shell evaluates and the SDK reads."""
    running = serve()
    command = [*PENSTOCK, "key", "create", "--name", "admin", "--allow", "queue|*|*", "--aws"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in printed.splitlines() if line.startswith("AWS_"))
    sqs = sdk.connect(running.url, found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"])
    stranger = sdk.connect(running.url, "stranger", "secret")
    # A running server notices a key that was made beside it within about a second.
    wait_until(lambda: not is_open(stranger))
    assert sqs.create_queue(QueueName="jobs")["QueueUrl"] == f"{running.url}/000000000000/jobs"


def is_open(sqs: Sqs) -> bool:
    try:
        sqs.list_queues()
    except Exception:
        return False
    return True
