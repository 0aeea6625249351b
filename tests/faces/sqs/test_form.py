"""Forms and XML, without a server."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.faces.sqs import form, requests, results
from penstock.faces.sqs.errors import Rejection
from penstock.faces.sqs.xml_text import answer_text, error_text, escaped
from tests.faces.sqs.conftest import NAMESPACE
from tests.faces.sqs.conftest import form as flat


@given(
    some.fixed_dictionaries(
        {},
        optional={
            "QueueUrl": some.text(),
            "MessageBody": some.text(),
            "DelaySeconds": some.integers(),
            "MessageGroupId": some.text(),
            "MessageAttributes": some.dictionaries(
                some.text(min_size=1),
                some.fixed_dictionaries(
                    {"DataType": some.text()},
                    optional={"StringValue": some.text(), "BinaryValue": some.binary()},
                ),
                min_size=1,
                max_size=12,
            ),
        },
    )
)
def test_a_form_says_the_same_as_json(asked: dict[str, Any]) -> None:
    read = form.read(requests.SendMessageRequest, flat("SendMessage", asked))
    assert read.queue_url == asked.get("QueueUrl")
    assert read.message_body == asked.get("MessageBody")
    assert read.delay_seconds == asked.get("DelaySeconds")
    shown = {
        name: {
            "DataType": value.data_type,
            **({} if value.string_value is None else {"StringValue": value.string_value}),
            **({} if value.binary_value is None else {"BinaryValue": value.binary_value}),
        }
        for name, value in (read.message_attributes or {}).items()
    }
    assert shown == asked.get("MessageAttributes", {})


@given(some.dictionaries(some.text(some.sampled_from("a.1Attribute")) | some.text(), some.text(), max_size=8))
def test_whatever_comes_as_a_form_is_read_or_refused(given: dict[str, str]) -> None:
    for shape in (requests.SendMessageBatchRequest, requests.CreateQueueRequest, requests.ReceiveMessageRequest):
        with suppress(Rejection):
            assert isinstance(form.read(shape, given), shape)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"AttributeName.2": "b", "AttributeName.10": "c", "AttributeName.1": "a"}, ["a", "b", "c"]),
        ({"AttributeName": "a"}, ["a"]),
        ({"AttributeNames.1": "a"}, ["a"]),
        ({"AttributeName.1": "a", "AttributeNames.1": "b"}, ["a"]),
        ({}, None),
    ],
)
def test_lists(given: dict[str, str], names: list[str] | None) -> None:
    assert form.read(requests.GetQueueAttributesRequest, given).attribute_names == names


@pytest.mark.parametrize(
    "given",
    [
        {"Tag.1.Key": "a", "Tag.1.Value": "b"},
        {"Tags.1.Key": "a", "Tags.1.Value": "b"},
        {"Tag.Key": "a", "Tag.Value": "b"},
    ],
)
def test_maps(given: dict[str, str]) -> None:
    assert form.read(requests.TagQueueRequest, given).tags == {"a": "b"}
    assert form.read(requests.TagQueueRequest, {"Tag.1.Key": "a"}).tags == {"a": ""}


# XML


@given(some.text())
def test_any_text_makes_good_xml(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    [read] = ElementTree.fromstring(f"<a><b>{escaped(text)}</b></a>")
    forbidden = [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF]
    assert (read.text or "") == text.translate(dict.fromkeys(forbidden, "\ufffd"))


def test_an_answer() -> None:
    message = results.ReceivedMessage(
        "id",
        "handle",
        "md5",
        "<body>",
        {"SenderId": "&"},
        "md5a",
        {"a\r": results.ShownValue("Binary", binary_value=b"\xff"), "b": results.ShownValue("String", "")},
    )
    text = answer_text("ReceiveMessage", results.ReceivedMessages([message]), "request")
    assert text == (
        '<?xml version="1.0"?><ReceiveMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        "<ReceiveMessageResult><Message><MessageId>id</MessageId><ReceiptHandle>handle</ReceiptHandle>"
        "<MD5OfBody>md5</MD5OfBody><Body>&lt;body&gt;</Body>"
        "<Attribute><Name>SenderId</Name><Value>&amp;</Value></Attribute>"
        "<MD5OfMessageAttributes>md5a</MD5OfMessageAttributes>"
        "<MessageAttribute><Name>a&#xD;</Name><Value><DataType>Binary</DataType><BinaryValue>/w==</BinaryValue></Value>"
        "</MessageAttribute><MessageAttribute><Name>b</Name><Value><DataType>String</DataType><StringValue></StringValue>"
        "</Value></MessageAttribute></Message></ReceiveMessageResult>"
        "<ResponseMetadata><RequestId>request</RequestId></ResponseMetadata></ReceiveMessageResponse>"
    )


def test_an_error() -> None:
    error = ElementTree.fromstring(error_text("Code", "a < b", "Receiver", "request"))
    assert [child.text for child in error[0]] == ["Receiver", "Code", "a < b", None]
    assert error.find(f"{NAMESPACE}RequestId").text == "request"
