"""Requests signed by botocore 1.44, as they were sent: what another program makes of the same rules."""

from __future__ import annotations

from typing import NamedTuple

ACCESS_KEY_ID = "shop"
SECRET = "x0PbQ7n1Zk5bq2mG8c4wT6yR9uE3iO1pA-sD_fH7jKL"
SIGNED_AT = 1_772_600_767_000  # 2026-03-04 05:06:07


class Vector(NamedTuple):
    name: str
    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]
    body: bytes


VECTORS = [
    Vector(
        "JSON",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
            b"Signature=6be5f36e95d73a76e33f58e6b8932a0172a982152fbba83e4884f3c73e24c5cd",
            b"content-length": b"81",
            b"host": b"127.0.0.1:8080",
        },
        b'{"QueueUrl": "http://127.0.0.1:8080/000000000000/orders", "MessageBody": "hello"}',
    ),
    Vector(
        "JSON, not ASCII",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
            b"Signature=a26a40f43ce0ac98678612284485acbef4b200b61d1d7fbf6a052f11bddad630",
            b"content-length": b"60",
            b"host": b"127.0.0.1:8080",
        },
        '{"QueueUrl":"orders","MessageBody":"Grüße 日本語 🚰"}'.encode(),
    ),
    Vector(
        "query in a body",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-www-form-urlencoded; charset=utf-8",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date, "
            b"Signature=1ef8f2ea2418a86ba80fd7fc1d7c0b9b5ca043f1c9faa624beeffed78c18ce39",
            b"content-length": b"80",
            b"host": b"127.0.0.1:8080",
        },
        b"Action=SendMessage&Version=2012-11-05&MessageBody=hello+world%21&QueueUrl=orders",
    ),
    Vector(
        "query in a body, to a queue",
        "POST",
        "/000000000000/orders.fifo",
        "",
        {
            b"content-type": b"application/x-www-form-urlencoded; charset=utf-8",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date, "
            b"Signature=51b4d02da1e8aed6ee2017a8ca5e30195f962750d794308e9c09d57cb55e7f1b",
            b"content-length": b"36",
            b"host": b"queue.example",
        },
        b"Action=PurgeQueue&Version=2012-11-05",
    ),
    Vector(
        "with a token",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"x-amz-date": b"20260304T050607Z",
            b"x-amz-security-token": b"FwoGZXIvYXdzEBYaDHqa0AP/+==",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, "
            b"Signature=3dd6cae3f4e8c7617cd0d9bcc906020ff30eae702357d73c8b938913b4d906e3",
            b"content-length": b"2",
            b"host": b"127.0.0.1:8080",
        },
        b"{}",
    ),
    Vector(
        "blanks and several headers",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"x-amz-meta": b"  a   b \t c  ",
            b"accept": b"*/*",
            b"amz-sdk-request": b"attempt=1",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/us-east-1/sqs/aws4_request, "
            b"SignedHeaders=accept;amz-sdk-request;content-type;host;x-amz-date;x-amz-meta;x-amz-target, "
            b"Signature=d90b429a354169c63e5ddb0ab0448fc3189f0277d0ccc293f3fa9307891a9af0",
            b"content-length": b"2",
            b"host": b"127.0.0.1:8080",
        },
        b"{}",
    ),
    Vector(
        "GET with a query",
        "GET",
        "/000000000000/orders",
        (
            "Version=2012-11-05&Action=ReceiveMessage&AttributeName.1=All&Empty=&MessageBody=a%20b%2Fc~d%2Be"
            "&%C3%BC=%E2%82%AC"
        ),
        {
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=host;x-amz-date, "
            b"Signature=6f5d81e3b3100610d4cd67b30949dd65efde722ee85572ce889137e3fcfca0d8",
            b"host": b"127.0.0.1:8080",
        },
        b"",
    ),
    Vector(
        "the header Date",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"date": b"Wed, 04 Mar 2026 05:06:07 -0000",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;date;host;x-amz-target, "
            b"Signature=e45180a9b90b6ca90bb3d0b76663fdccea29833e2a8a320fc8c52b13d88029fa",
            b"content-length": b"2",
            b"host": b"127.0.0.1:8080",
        },
        b"{}",
    ),
    Vector(
        "another service",
        "POST",
        "/",
        "",
        {
            b"content-type": b"application/x-www-form-urlencoded; charset=utf-8",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/us-east-1/sts/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date, "
            b"Signature=a9685a6a14d02d1b1f3d0ebc868d77f1917231fd08a9304fd24aff4394195641",
            b"content-length": b"43",
            b"host": b"127.0.0.1:8080",
        },
        b"Action=GetCallerIdentity&Version=2011-06-15",
    ),
    Vector(
        "a path to be escaped",
        "POST",
        "/000000000000/a%3Ab@c/./x//y/../",
        "",
        {
            b"content-type": b"application/x-amz-json-1.0",
            b"x-amz-target": b"AmazonSQS.SendMessage",
            b"user-agent": b"Boto3/1.40",
            b"x-amz-date": b"20260304T050607Z",
            b"authorization": b"AWS4-HMAC-SHA256 Credential=shop/20260304/eu-west-1/sqs/aws4_request, "
            b"SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
            b"Signature=e94ea9cdc08fef014cb01392f318504b1322339bd4321b5846c537f68a18e0b2",
            b"content-length": b"2",
            b"host": b"127.0.0.1:8080",
        },
        b"{}",
    ),
    Vector(
        "presigned",
        "GET",
        "/000000000000/orders",
        (
            "Action=ReceiveMessage&Version=2012-11-05&AttributeName.1=All&X-Amz-Algorithm=AWS4-HMAC-SHA256"
            "&X-Amz-Credential=shop%2F20260304%2Feu-west-1%2Fsqs%2Faws4_request&X-Amz-Date=20260304T050607Z"
            "&X-Amz-Expires=3600&X-Amz-SignedHeaders=host"
            "&X-Amz-Signature=e3a9246caa6e8befb1b35651898c112f492ed78daa6b8b6aec938a9256201ce6"
        ),
        {
            b"host": b"127.0.0.1:8080",
        },
        b"",
    ),
    Vector(
        "presigned, not ASCII, a week",
        "GET",
        "/",
        (
            "Action=SendMessage&QueueUrl=orders&MessageBody=Gr%C3%BC%C3%9Fe%20%26%20%E6%97%A5"
            "&X-Amz-Algorithm=AWS4-HMAC-SHA256"
            "&X-Amz-Credential=shop%2F20260304%2Feu-west-1%2Fsqs%2Faws4_request&X-Amz-Date=20260304T050607Z"
            "&X-Amz-Expires=604800&X-Amz-SignedHeaders=host"
            "&X-Amz-Signature=191bcbc18cbb5c99e74e932fd19fa11a36bddbfb7a23d6642ba73485b87644c4"
        ),
        {
            b"host": b"127.0.0.1:8080",
        },
        b"",
    ),
    Vector(
        "presigned with a token",
        "GET",
        "/",
        (
            "Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256"
            "&X-Amz-Credential=shop%2F20260304%2Feu-west-1%2Fsqs%2Faws4_request&X-Amz-Date=20260304T050607Z"
            "&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
            "&X-Amz-Security-Token=FwoGZXIvYXdzEBYaDHqa0AP%2F%2B%3D%3D"
            "&X-Amz-Signature=d9a034b1f2eb1701238a08fbbf72c7af8c2f53b7873f7fe3ebd5b1399b01728a"
        ),
        {
            b"host": b"127.0.0.1:8080",
        },
        b"",
    ),
]
