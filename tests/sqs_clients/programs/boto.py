"""The AWS SDK for Python, spoken to over pipes: requests are lines of JSON on standard input, and so are the answers on
standard output.

It runs in an environment of its own, on whichever boto3 is there. Requests are served side by side, as threads of one
program would call the SDK; an answer bears the number of its request.
"""

from __future__ import annotations

import base64
import json
import sys
import threading

import boto3
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

clients = []
writing = threading.Lock()
# An answer that a test expects must not hide behind a second attempt.
ONCE = {"total_max_attempts": 1}


def connect(retries=ONCE, **options):
    clients.append(boto3.client("sqs", config=Config(retries=retries, read_timeout=60), **options))
    return len(clients) - 1


def call(client, method, arguments):
    answer = getattr(clients[client], method)(**arguments)
    meta = answer.pop("ResponseMetadata")
    return {"answer": answer, "request_id": meta.get("RequestId"), "attempts": meta["RetryAttempts"] + 1}


def pages(client, method, arguments):
    found = list(clients[client].get_paginator(method).paginate(**arguments))
    for page in found:
        page.pop("ResponseMetadata")
    return found


def presign(client, url, parameters):
    """With botocore's own signer: the SDK of today makes no such URLs for SQS, and kombu does it like this."""
    meta = clients[client].meta
    request = AWSRequest("GET", url, params=parameters)
    credentials = clients[client]._request_signer._credentials
    SigV4QueryAuth(credentials, "sqs", meta.region_name, expires=60).add_auth(request)
    return request.prepare().url


def model(client):
    """The operations that the SDK knows, and the errors that it has classes for."""
    found = clients[client].meta.service_model
    operations = [found.operation_model(name) for name in found.operation_names]
    return {"operations": found.operation_names, "errors": sorted({e.name for o in operations for e in o.error_shapes})}


def told(error, client):
    """What a program that catches it can see. `kind` is the name by which `client.exceptions` has the class."""
    kind = type(error).__name__
    if not isinstance(error, ClientError):
        return {"kind": kind, "text": str(error)}
    modelled = getattr(client.exceptions, kind, None) if client and kind != "ClientError" else None
    return {
        "kind": kind if modelled and isinstance(error, modelled) else None,
        "status": error.response["ResponseMetadata"]["HTTPStatusCode"],
        "request_id": error.response["ResponseMetadata"].get("RequestId"),
        "code": error.response["Error"]["Code"],
        "fault": error.response["Error"].get("Type"),
        "text": error.response["Error"].get("Message"),
    }


def encoded(value):
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(type(value).__name__)


def decoded(found):
    return base64.b64decode(found["bytes"]) if found.keys() == {"bytes"} else found


def serve(number, verb, words):
    try:
        reply = {"result": VERBS[verb](**words)}
    except (BotoCoreError, ClientError) as error:
        client = clients[words["client"]] if "client" in words else None
        reply = {"error": told(error, client)}
    except Exception as error:
        reply = {"failure": repr(error)}
    with writing:
        sys.stdout.write(json.dumps({"number": number, **reply}, default=encoded) + "\n")
        sys.stdout.flush()


VERBS = {"connect": connect, "call": call, "pages": pages, "presign": presign, "model": model}

if __name__ == "__main__":
    for line in sys.stdin:
        threading.Thread(target=serve, args=json.loads(line, object_hook=decoded), daemon=True).start()
