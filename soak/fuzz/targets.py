"""All targets by their names, each with the words that its inputs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from soak.fuzz.bridge import fuzz_bridge
from soak.fuzz.edge import fuzz_edge
from soak.fuzz.faces import face, fuzz_arrow, fuzz_multipart
from soak.fuzz.signatures import fuzz_sigv4

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "corpus"

_JSON = (b"null", b"true", b"false", b"-1", b"0", b"1e999", b"18446744073709551616", b'"', b"{", b"}", b"[", b"]", b",")
_TEXT = (
    b'"\\ud800"',
    b'"\\u0000"',
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"%00",
    b"%2F",
    b"%C3%28",
    b"..",
    b"\x00",
    b"\xf0\x9f\x98\x80",
)
_HTTP = (
    *(b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"/now", b"/later", b"/cut", b"/q/a", b"*"),
    *(b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\t", b" ", b":", b"\0", b"\x0b"),
    *(b"Host: x", b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: +5", b"Content-Length: 5, 5"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip, chunked"),
    *(
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding:\x0bchunked",
        b"Connection: close",
        b"Connection: keep-alive",
    ),
    *(b"Connection: upgrade", b"Upgrade: h2c", b"Expect: 100-continue", b"0\r\n\r\n", b"5\r\nhello\r\n", b"5;a=b\r\n"),
    *(b"http://x/now", b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n", b"ffffffffffffffff\r\n", b"A: b\r\n"),
)
_FORM = (
    *(b"Action=", b"SendMessage", b"SendMessageBatch", b"ReceiveMessage", b"DeleteMessage", b"CreateQueue"),
    *(b"SetQueueAttributes", b"GetQueueAttributes", b"ListQueues", b"ChangeMessageVisibility", b"StartMessageMoveTask"),
    *(b"&Attribute.1.Name=", b"&Attribute.1.Value=", b"&MessageAttribute.1.Value.StringValue=", b"&MessageBody="),
    *(
        b"&QueueUrl=http://127.0.0.1:8080/000000000000/orders",
        b"SendMessageBatchRequestEntry.1.Id=a",
        b".1.",
        b"=",
        b"&",
    ),
    *(b"&MessageAttribute.1.Value.DataType=", b"&DelaySeconds=", b"&MaxNumberOfMessages=", b"&WaitTimeSeconds=", b"+"),
)
_NATIVE = (
    *(b"/v1/queues/orders", b"/messages", b"/claim", b"/ack", b"/renew", b"/release", b"/purge", b"/shipments/c/1"),
    *(
        b"/settle",
        b"/v1/moves",
        b"/v1/ledger",
        b"/exports/c/1",
        b"/rows",
        b"?limit=",
        b"&after=",
        b"?text=",
        b"?state=",
    ),
    *(b'"messages":', b'"body":', b'"body_base64":', b'"attributes":', b'"receipts":', b'"wait_s":', b'"limit":'),
    *(b"Idempotency-Key: a", b"Accept: application/vnd.apache.arrow.stream", b"Content-Type: application/x-ndjson"),
)
_EMODB = (
    *(b"/queue/1/", b"/dedupq/1/", b"orders", b"_sendbatch", b"_move", b"/send", b"/sendbatch", b"/poll", b"/ack"),
    *(
        b"/renew",
        b"/peek",
        b"/size",
        b"/claimcount",
        b"/unclaimall",
        b"?limit=",
        b"&ttl=",
        b"?from=",
        b"&to=",
        b"?partitioned",
    ),
)
_SQS = (
    *(b"X-Amz-Target: AmazonSQS.", b'"QueueUrl":', b'"MessageBody":', b'"Entries":', b'"ReceiptHandle":', b'"Id":'),
    *(b'"MessageAttributes":', b'"DataType":', b'"StringValue":', b'"BinaryValue":', b'"Attributes":', b'"Tags":'),
    *_FORM,
)
_MQS = (
    b"--b",
    b"--b--",
    b"\r\n",
    b"\r\n\r\n",
    b"multipart/mixed; boundary=b",
    b'boundary="b c"',
    b"Content-Type: a",
    b"\n\n",
)
_SIGNED = (
    *(
        b"AWS4-HMAC-SHA256 ",
        b"Credential=",
        b"SignedHeaders=",
        b"Signature=",
        b"/20260921/",
        b"/eu-west-1/sqs/aws4_request",
    ),
    *(b"X-Amz-Algorithm=", b"&X-Amz-Credential=", b"&X-Amz-Date=", b"&X-Amz-Expires=", b"&X-Amz-SignedHeaders=host"),
    *(
        b"&X-Amz-Signature=",
        b"x-amz-date: ",
        b"20260921T141320Z",
        b"date: ",
        b"x-amz-content-sha256: ",
        b"host;",
        b"fuzz",
    ),
)
_CONSOLE = (
    *(b"/console/queues/orders", b"/settings", b"/send", b"/messages", b"/act", b"/edit", b"/purge", b"/delete"),
    *(b"content-type: application/x-www-form-urlencoded", b"origin: http://127.0.0.1:8080", b"name=", b"&body=", b"&"),
)


@dataclass(frozen=True)
class Target:
    name: str
    what: str
    run: Callable[[bytes], None]
    words: tuple[bytes, ...]
    longest: int = 4_096

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name


TARGETS = {
    target.name: target
    for target in (
        Target("edge", "bytes to requests and answers", fuzz_edge, _HTTP),
        Target("mqs", "queues and messages of mqs", face(b"/messages/", b"/queues"), (*_MQS, *_JSON, *_TEXT)),
        Target("multipart", "several messages of mqs in one body", fuzz_multipart, (*_MQS, *_TEXT)),
        Target("native", "JSON of the native API", face(b"/v1/"), (*_NATIVE, *_JSON, *_TEXT)),
        Target("arrow", "Arrow streams and their flatbuffers", fuzz_arrow, (b"\xff\xff\xff\xff", b"ARROW1", b"\0" * 8)),
        Target("emodb", "JSON of EmoDB", face(b"/queue/1/", b"/dedupq/1/"), (*_EMODB, *_JSON, *_TEXT)),
        Target("sqs-json", "JSON of SQS", face(b"/"), (*_SQS, *_JSON, *_TEXT)),
        Target("sqs-form", "forms of SQS", face(b"/?", b"/000000000000/"), (*_FORM, *_TEXT)),
        Target("sigv4", "signatures", fuzz_sigv4, (*_SIGNED, *_TEXT)),
        Target("mqcore", "paths and messages of MQ-Core", face(b"/line.fifo", b"/"), (b"/messages", *_TEXT)),
        Target("console", "forms and paths of the console", face(b"/console"), (*_CONSOLE, *_TEXT)),
        Target(
            "bridge",
            "frames between processes",
            fuzz_bridge,
            (b"\x95\x90\x90\x90\x90\x90", b"\xc0", b"\x91", b"\xa4find"),
        ),
    )
}
