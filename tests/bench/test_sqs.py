"""The loads of the SQS API: what was signed in advance is accepted, and a message that was received is deleted."""

from __future__ import annotations

import json

from bench.signing import Signer, signed_sends
from bench.sqs import Fifo, fill
from penstock.client import Client
from tests.servers import ThreadServer

QUEUE = "q.fifo"


def test_what_was_signed_in_advance_is_accepted(server: ThreadServer):
    host = server.url.removeprefix("http://")
    with server.talk() as talk:
        talk("PUT", "/v1/queues/q", {})
        key = talk("POST", "/v1/keys", {"name": "load", "rules": ["queue|*|*"]}).json
        signer = Signer(key["aws_access_key_id"], key["aws_secret_access_key"], host)
        for line in signed_sends(signer, f"{server.url}/000000000000/q", 3, 200):
            authorization, stamp, body = line.rstrip("\n").split("\t")
            reply = talk(
                "POST",
                "/",
                body,
                content_type="application/x-amz-json-1.0",
                x_amz_target="AmazonSQS.SendMessage",
                authorization=authorization,
                x_amz_date=stamp,
            )
            assert reply.status == 200, reply.body
            assert len(json.loads(body)["MessageBody"]) == 200
    with Client(server.url, api_key=key["secret"]) as client:
        assert client.queue("q").count.total == 3


def test_what_stands_behind_a_held_head_stays_there(tmp_path):
    (tmp_path / "data").mkdir()
    fill(tmp_path / "data", behind=50, free=5)
    server = ThreadServer(f"sqlite:///{tmp_path}/data/penstock.db")
    try:
        worker = Fifo(f"{server.url}/000000000000/{QUEUE}").work(0)
        done = 0
        with server.talk() as talk:
            step = next(worker)
            while step is not None:
                head, _, body = step.request.partition(b"\r\n\r\n")
                [target] = [line for line in head.split(b"\r\n") if line.startswith(b"X-Amz-Target")]
                kind = {
                    "content_type": "application/x-amz-json-1.0",
                    "x_amz_target": target.partition(b": ")[2].decode(),
                }
                reply = talk("POST", "/", body, **kind)
                answer = b"HTTP/1.1 %d \r\nContent-Length: %d\r\n\r\n%b" % (reply.status, len(reply.body), reply.body)
                assert step.is_whole(answer)
                done += step.done
                step = sent(worker, answer)
        assert done == 5
        with Client(server.url) as client:
            assert client.queue(QUEUE).count.total == 60
    finally:
        server.stop()


def sent(worker, answer):
    try:
        return worker.send(answer)
    except StopIteration:
        return None
