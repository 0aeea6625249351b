"""How requests and answers are written, in both protocols."""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest

from penstock.faces.sqs.operations import operations
from tests.faces.sqs.conftest import ACCOUNT, NAMESPACE, Sqs
from tests.servers import ThreadServer
from tests.talk import Talk

ALL = [
    *("AddPermission", "CancelMessageMoveTask", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch"),
    *("CreateQueue", "DeleteMessage", "DeleteMessageBatch", "DeleteQueue", "GetQueueAttributes", "GetQueueUrl"),
    *("ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueues", "ListQueueTags", "PurgeQueue"),
    *("ReceiveMessage", "RemovePermission", "SendMessage", "SendMessageBatch", "SetQueueAttributes"),
    *("StartMessageMoveTask", "TagQueue", "UntagQueue"),
]


def test_every_operation_of_sqs_is_there() -> None:
    assert sorted(operations(None, None)) == sorted(ALL)  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", ALL)
def test_an_operation_without_anything_is_refused_in_its_words(sqs: Sqs, operation: str) -> None:
    if operation == "ListQueues":
        assert sqs(operation) == {}
        return
    failure = sqs.refused(operation)
    assert (failure.status, failure.code, failure.sender) == (400, "MissingParameter", True)
    assert failure.message.startswith("The request must contain the parameter ")
    assert failure.shape in (None, "com.amazon.coral.service#MissingRequiredParameterException")


def test_every_answer_has_an_id_of_its_own(sqs: Sqs, url: str) -> None:
    replies = [sqs.ask("ListQueues"), sqs.ask("ListQueues"), sqs.ask("SendMessage", QueueUrl=url), sqs.ask("None")]
    assert len({reply.headers["x-amzn-RequestId"] for reply in replies}) == 4


def test_what_is_empty_is_absent(sqs: Sqs) -> None:
    assert sqs("ListQueues") == {}
    url = sqs.create()
    assert sqs("ReceiveMessage", QueueUrl=url) == {}
    assert sqs("GetQueueAttributes", QueueUrl=url) == {}
    assert sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == {}
    assert sqs("ListQueueTags", QueueUrl=url) == {}
    assert sqs("ListDeadLetterSourceQueues", QueueUrl=url) == {}
    assert sqs("ListMessageMoveTasks", SourceArn=sqs.arn(url)) == {}
    sent = sqs("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "x"}])
    assert list(sent) == ["Successful"]
    assert sent["Successful"][0].keys() == {"Id", "MessageId", "MD5OfMessageBody"}
    [message] = sqs("ReceiveMessage", QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert message.keys() == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    entries = [{"Id": "a", "ReceiptHandle": message["ReceiptHandle"]}]
    assert sqs("DeleteMessageBatch", QueueUrl=url, Entries=entries) == {"Successful": [{"Id": "a"}]}


def test_an_empty_result_is_an_empty_element(talk: Talk) -> None:
    Sqs(talk, "json").create()
    reply = talk("GET", "/?Action=ReceiveMessage&QueueUrl=q")
    assert b"<ReceiveMessageResult/>" in reply.body
    reply = talk("GET", "/?Action=PurgeQueue&QueueUrl=q")
    assert b"Result" not in reply.body
    assert b"<PurgeQueueResponse xmlns=" in reply.body


# Where a request is sent


@pytest.mark.parametrize("path", [f"/{ACCOUNT}/q", "/123456789012/q", "/1/q"])
def test_a_queues_url_stands_for_the_queue(sqs: Sqs, url: str, path: str) -> None:
    assert sqs.ask("SendMessage", path, MessageBody="x").status == 200
    assert sqs.ask("SendMessage", path, MessageBody="y", QueueUrl=url).status == 200
    assert sqs.bodies(url) == ["x", "y"]


def test_what_is_asked_of_a_queue_by_name_wins_over_the_path(sqs: Sqs) -> None:
    sqs.create("one")
    sqs.create("other")
    assert sqs.ask("SendMessage", f"/{ACCOUNT}/one", QueueUrl="other", MessageBody="x").status == 200
    assert sqs.bodies("other") == ["x"]


@pytest.mark.parametrize("operation", ["ListQueues", "CreateQueue"])
def test_in_a_form_a_queues_url_does_not_make_or_list_queues(talk: Talk, operation: str) -> None:
    query, in_json = Sqs(talk, "query"), Sqs(talk, "json")
    failure = query.failure(query.ask(operation, f"/{ACCOUNT}/q", QueueName="x"))
    assert (failure.status, failure.code) == (400, "InvalidAction")
    assert failure.message == f"The action {operation} is not valid for this endpoint."
    assert in_json.ask(operation, f"/{ACCOUNT}/q", QueueName="x").status == 200


def test_a_get_with_parameters_in_the_query(talk: Talk) -> None:
    assert (
        talk("GET", "/?Action=CreateQueue&QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=0").status == 200
    )
    assert talk("GET", f"/{ACCOUNT}/q?{urlencode({'Action': 'SendMessage', 'MessageBody': 'a b+ü'})}").status == 200
    reply = talk("GET", "/7/q?Action=ReceiveMessage&AttributeName=All")
    assert "<Body>a b+ü</Body>" in reply.body.decode()
    assert b"<Name>SentTimestamp</Name>" in reply.body


def test_the_parameters_of_a_form_may_be_in_the_query_as_well(talk: Talk) -> None:
    Sqs(talk, "json").create()
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert talk("POST", f"/{ACCOUNT}/q?Action=SendMessage", "MessageBody=x", **form).status == 200


def test_a_look_at_a_queues_url_finds_nothing(talk: Talk) -> None:
    reply = talk("GET", f"/{ACCOUNT}/q")
    assert (reply.status, reply.body) == (404, b"<UnknownOperationException/>")
    assert reply.headers["x-amzn-RequestId"]


def test_the_root_is_still_a_page_for_people(talk: Talk) -> None:
    page = talk("GET", "/", accept="text/html")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert talk("GET", "/?other=1").json["name"] == "Penstock"
    assert talk("HEAD", "/?Action=CreateQueue&QueueName=q").headers["Content-Type"] == "application/json"
    assert Sqs(talk, "json")("ListQueues") == {}


@pytest.mark.parametrize("path", ["/a/b", "/12a/b", "/%E2%91%A0/b", f"/{ACCOUNT}/a/b", f"/{ACCOUNT}/"])
def test_other_paths_are_no_queues_urls(talk: Talk, path: str) -> None:
    for method in ("GET", "POST"):
        reply = talk(method, path, None, x_amz_target="AmazonSQS.ListQueues")
        assert (reply.status, reply.json) == (404, {"error": "not found"})


def test_mqcore_keeps_its_paths(talk: Talk) -> None:
    assert talk("PUT", "/12").status == 201
    assert talk("POST", "/12/messages", b"x").status == 201
    assert talk("GET", "/12/messages").body == b"x"
    refused = talk("PUT", f"/{ACCOUNT}")
    assert (refused.status, "belongs to another API" in refused.json["error"]) == (400, True)


def test_a_queue_may_be_called_like_a_part_of_another_path(sqs: Sqs) -> None:
    url = sqs.create("messages")
    assert sqs.ask("SendMessage", f"/{ACCOUNT}/messages", MessageBody="x").status == 200
    assert sqs.bodies(url) == ["x"]


# Addresses


def test_a_url_has_the_host_that_the_client_wrote(talk: Talk, sqs: Sqs) -> None:
    host = talk.url.removeprefix("http://")
    assert sqs.create() == f"http://{host}/{ACCOUNT}/q"
    assert Sqs(talk, sqs.protocol, host="localhost:1234").create() == f"http://localhost:1234/{ACCOUNT}/q"


@pytest.mark.parametrize(
    "named", ["q", "http://elsewhere:1/999999999999/q", "https://sqs.eu-west-1.amazonaws.com/1/q", "/x/q", "a/b/c/q"]
)
def test_a_queue_is_known_by_the_last_part(sqs: Sqs, url: str, named: str) -> None:
    sqs.send(named, "x")
    assert sqs.bodies(url) == ["x"]


@pytest.mark.parametrize("named", ["", "http://x/1/", "..", "a b", "q\0", "x" * 256, "q?x", "http://x/1/none"])
def test_no_other_name_is_a_queue(sqs: Sqs, named: str) -> None:
    failure = sqs.refused("SendMessage", QueueUrl=named, MessageBody="x")
    assert (failure.status, failure.code) == (400, "AWS.SimpleQueueService.NonExistentQueue")
    assert failure.shape in (None, "com.amazonaws.sqs#QueueDoesNotExist")


def test_the_text_for_a_missing_queue_differs(talk: Talk) -> None:
    for protocol, text in (("json", "exist."), ("query", "exist for this wsdl version.")):
        failure = Sqs(talk, protocol).refused("GetQueueUrl", QueueName="none")
        assert failure.message == f"The specified queue does not {text}"


def test_account_region_and_base_url_are_settings(settled: list[ThreadServer]) -> None:
    server = ThreadServer(
        "memory://", sqs_account="123456789012", sqs_region="eu-north-1", sqs_base_url="https://queue.example/x/"
    )
    settled.append(server)
    with server.talk() as talk:
        sqs = Sqs(talk, "json")
        assert sqs.create() == "https://queue.example/x/123456789012/q"
        assert sqs.arn("q") == "arn:aws:sqs:eu-north-1:123456789012:q"
        assert sqs.ask("SendMessage", "/123456789012/q", MessageBody="x").status == 200
        assert talk("PUT", "/123456789012").status == 400
        assert talk("PUT", f"/{ACCOUNT}").status == 201


@pytest.mark.parametrize(
    ("region", "arn"),
    [
        ("eu-west-3", "arn:aws:sqs:eu-west-3:"),
        ("cn-north-1", "arn:aws-cn:sqs:"),
        ("us-gov-east-1", "arn:aws-us-gov:sqs:"),
    ],
)
def test_an_arn_has_the_region_that_a_request_is_signed_for(talk: Talk, region: str, arn: str) -> None:
    signed = f"AWS4-HMAC-SHA256 Credential=AKID/20260101/{region}/sqs/aws4_request, SignedHeaders=host, Signature=0"
    sqs = Sqs(talk, "json", authorization=signed)
    assert sqs.arn(sqs.create()).startswith(arn)
    credential = quote(f"AKID/20260101/{region}/sqs/aws4_request")
    query = f"Action=GetQueueAttributes&QueueUrl=q&AttributeName.1=QueueArn&X-Amz-Credential={credential}"
    assert f"<Value>{arn}" in talk("GET", f"/?{query}").body.decode()


# What cannot be read


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff",
        b'{"QueueUrl": 5}',
        b'{"MaxResults": "5"}',
        b'{"MaxResults": 1.5}',
        b"[" * 9999,
    ],
)
def test_json_that_cannot_be_read(talk: Talk, body: bytes) -> None:
    sqs = Sqs(talk, "json")
    failure = sqs.failure(talk("POST", "/", body, x_amz_target="AmazonSQS.ListDeadLetterSourceQueues"))
    assert (failure.status, failure.code) == (400, "SerializationException")
    assert failure.shape == "com.amazon.coral.service#SerializationException"


@pytest.mark.parametrize(
    "body",
    [
        b"Action=ListQueues&MaxResults=x",
        b"Action=ListQueues&QueueNamePrefix=%FF",
        b"Action=ListQueues&QueueNamePrefix=\xff",
        b"Action=ListQueues" + b"&a=b" * 3000,
        b"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.1.Name=a&MessageAttribute.1.Value.BinaryValue=%",
        b"Action=CreateQueue&QueueName=q&Attribute.1.Value=x",
    ],
)
def test_a_form_that_cannot_be_read(talk: Talk, body: bytes) -> None:
    sqs = Sqs(talk, "query")
    failure = sqs.failure(talk("POST", "/", body))
    assert (failure.status, failure.code) == (400, "SerializationException")


@pytest.mark.parametrize(
    "body",
    [
        b"Action=ListQueues&QueueNamePrefix.1.2=x&QueueNamePrefix=y",
        b"Action=ListQueues&QueueNamePrefix=y&QueueNamePrefix.1.2=x",
        b"Action=ListQueues&....=x&=y&.=z",
    ],
)
def test_a_form_with_odd_names_is_no_trouble(talk: Talk, body: bytes) -> None:
    assert talk("POST", "/", body).status in (200, 400)


def test_an_unknown_operation(sqs: Sqs) -> None:
    failure = sqs.refused("Nothing")
    assert (failure.status, failure.code) == (400, "InvalidAction")
    assert failure.shape in (None, "com.amazon.coral.service#UnknownOperationException")


@pytest.mark.parametrize("target", ["", "SendMessage", "AmazonSQS.sendmessage", "DynamoDB_20120810.ListTables"])
def test_an_unknown_target(talk: Talk, target: str) -> None:
    failure = Sqs(talk, "json").failure(talk("POST", "/", "{}", x_amz_target=target))
    assert (failure.status, failure.code) == (400, "InvalidAction")


def test_json_without_a_target_and_a_form_without_an_action(talk: Talk) -> None:
    failure = Sqs(talk, "json").failure(talk("POST", "/", "{}", content_type="application/x-amz-json-1.0"))
    assert (failure.status, failure.code) == (400, "InvalidAction")
    failure = Sqs(talk, "query").failure(talk("POST", "/", "x=1"))
    assert (failure.status, failure.code) == (400, "MissingAction")


def test_json_may_be_empty_and_may_hold_what_is_not_known(talk: Talk) -> None:
    target = {"x_amz_target": "AmazonSQS.ListQueues"}
    assert talk("POST", "/", b"", **target).json == {}
    assert talk("POST", "/", {"None": 1, "MaxResults": None}, **target).json == {}


@pytest.mark.parametrize("headers", [{"x_amz_target": "AmazonSQS.SendMessage"}, {}])
def test_what_the_edge_refuses_is_refused_in_these_words(talk: Talk, headers: dict[str, str]) -> None:
    sqs = Sqs(talk, "json" if headers else "query")
    reply = talk("POST", "/", b"x" * (4 * 1024 * 1024 + 1), **headers)
    assert (sqs.failure(reply).status, sqs.failure(reply).code) == (413, "RequestEntityTooLarge")
    assert reply.headers["x-amzn-RequestId"]


def test_the_edge_refuses_others_in_theirs(talk: Talk) -> None:
    assert talk("POST", "/v1/moves", b"x" * 100_000).json.keys() == {"error"}
    assert talk("POST", "/q/messages", b"x" * (1024 * 1024 + 1)).json.keys() == {"error"}


# XML


TEXT = '<a href="x">&amp;\'\t\r\n\r</a> ü € \N{GRINNING FACE} ]]> \x7f\x80'


def test_text_survives_both_protocols(sqs: Sqs, url: str) -> None:
    attributes = {"a": {"DataType": "String", "StringValue": TEXT}}
    sqs.send(url, TEXT, MessageAttributes=attributes)
    [message] = sqs.receive(url, MessageAttributeNames=["All"])
    assert message["Body"] == TEXT
    assert message["MessageAttributes"]["a"]["StringValue"] == TEXT


def test_a_carriage_return_is_escaped(talk: Talk) -> None:
    sqs = Sqs(talk, "json")
    url = sqs.create()
    sqs.send(url, "a\rb\r\n")
    assert b"<Body>a&#xD;b&#xD;\n</Body>" in Sqs(talk, "query").ask("ReceiveMessage", QueueUrl=url).body


def test_an_error_that_repeats_what_xml_cannot_hold(talk: Talk) -> None:
    sqs = Sqs(talk, "query")
    failure = sqs.refused("SendMessage", QueueUrl=sqs.create(), MessageBody="x", MessageGroupId="a\0\ufffe<b")
    assert failure.code == "InvalidParameterValue"
    assert failure.message.startswith("Value a\ufffd\ufffd<b for parameter MessageGroupId is invalid.")


# Batches that are too large to be built


def test_a_batch_of_very_many_entries_is_not_built(talk: Talk) -> None:
    sqs = Sqs(talk, "json")
    for name in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"):
        body = '{"QueueUrl": "q", "Entries": [' + ",".join(["{}"] * 500_000) + "]}"
        failure = sqs.failure(talk("POST", "/", body, x_amz_target=f"AmazonSQS.{name}"))
        assert failure.code == "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"


def test_a_large_batch_of_few_entries_is_read(in_json: Sqs) -> None:
    url = in_json.create()
    entries = [{"Id": str(number), "MessageBody": "{" * 10_000} for number in range(10)]
    assert len(in_json("SendMessageBatch", QueueUrl=url, Entries=entries)["Successful"]) == 10


# Another service


def test_who_am_i(talk: Talk) -> None:
    reply = talk("POST", "/", "Action=GetCallerIdentity&Version=2011-06-15")
    assert reply.status == 200
    assert b'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"' in reply.body
    assert NAMESPACE.strip("{}").encode() not in reply.body
    assert f"<Account>{ACCOUNT}</Account>".encode() in reply.body
    failure = Sqs(talk, "json").failure(talk("POST", "/", json.dumps({}), x_amz_target="AmazonSQS.GetCallerIdentity"))
    assert failure.code == "InvalidAction"
