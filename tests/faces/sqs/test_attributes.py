"""The attributes of queues, their policies, tags and permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.servers import ThreadServer
from tests.talk import Talk

SHOWN = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:q",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
OF_FIFO = {
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoQueue": "true",
    "FifoThroughputLimit": "perQueue",
}
TIMES = ("CreatedTimestamp", "LastModifiedTimestamp")


def test_all_attributes_of_a_plain_queue(sqs: Sqs, url: str, server: ThreadServer) -> None:
    shown = sqs.attributes(url)
    now = server.clock() // 1000
    for name in TIMES:
        assert now - 600 < int(shown.pop(name)) <= now
    assert shown == SHOWN


def test_all_attributes_of_a_fifo_queue(sqs: Sqs) -> None:
    shown = sqs.attributes(sqs.create_fifo())
    assert {name: value for name, value in shown.items() if name not in TIMES} == {
        **SHOWN,
        **OF_FIFO,
        "QueueArn": SHOWN["QueueArn"] + ".fifo",
    }


def test_only_what_is_asked_for_is_shown(sqs: Sqs, url: str) -> None:
    assert sqs.attributes(url, "DelaySeconds", "FifoQueue", "RedrivePolicy") == {"DelaySeconds": "0"}
    for names in (["Nothing"], ["DelaySeconds", "nothing"]):
        failure = sqs.refused("GetQueueAttributes", QueueUrl=url, AttributeNames=names)
        assert (failure.status, failure.code) == (400, "InvalidAttributeName")
        assert failure.message == f"Unknown Attribute {names[-1]}."


def test_attributes_that_are_set(sqs: Sqs, url: str, server: ThreadServer) -> None:
    given = {
        "VisibilityTimeout": "43200",
        "MessageRetentionPeriod": "1209600",
        "DelaySeconds": "900",
        "MaximumMessageSize": "1024",
        "ReceiveMessageWaitTimeSeconds": "20",
        "Policy": '{"Version":"2012-10-17"}',
        "KmsMasterKeyId": "alias/x",
        "KmsDataKeyReusePeriodSeconds": "60",
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
    }
    before = sqs.attributes(url)
    server.clock.advance(100)
    assert sqs("SetQueueAttributes", QueueUrl=url, Attributes=given) == {}
    shown = sqs.attributes(url)
    assert shown.items() >= {**given, "SqsManagedSseEnabled": "false"}.items()
    assert shown["CreatedTimestamp"] == before["CreatedTimestamp"]
    assert int(shown["LastModifiedTimestamp"]) >= int(before["LastModifiedTimestamp"]) + 100
    gone = {"Policy": "", "KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300", "RedriveAllowPolicy": ""}
    sqs("SetQueueAttributes", QueueUrl=url, Attributes=gone)
    assert not sqs.attributes(url).keys() & gone.keys()
    assert sqs.attributes(url, "VisibilityTimeout") == {"VisibilityTimeout": "43200"}


def test_setting_nothing_changes_nothing(in_json: Sqs) -> None:
    assert in_json("SetQueueAttributes", QueueUrl=in_json.create(), Attributes={}) == {}


def test_the_core_has_what_it_knows_and_labels_have_the_rest(sqs: Sqs, talk: Talk) -> None:
    url = sqs.create(VisibilityTimeout="5", ReceiveMessageWaitTimeSeconds="3")
    talk("PATCH", "/v1/queues/q", {"visibility_ms": 6000})
    assert sqs.attributes(url, "VisibilityTimeout", "ReceiveMessageWaitTimeSeconds") == {
        "VisibilityTimeout": "6",
        "ReceiveMessageWaitTimeSeconds": "3",
    }
    assert sqs("ListQueueTags", QueueUrl=url) == {}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("VisibilityTimeout", ["-1", "43201", "x", "", "1.5", "٣", " 1", "1e1"]),
        ("MessageRetentionPeriod", ["59", "1209601"]),
        ("DelaySeconds", ["901"]),
        ("MaximumMessageSize", ["1023", "1048577"]),
        ("ReceiveMessageWaitTimeSeconds", ["21"]),
        ("KmsDataKeyReusePeriodSeconds", ["59", "86401"]),
        ("SqsManagedSseEnabled", ["yes", ""]),
        ("Policy", ["x", "[]", "1", "{" * 3000, '{"a": "' + "x" * 20_480 + '"}']),
    ],
)
def test_values_out_of_their_bounds(sqs: Sqs, url: str, name: str, values: list[str]) -> None:
    for value in values:
        for operation, asked in (("SetQueueAttributes", {"QueueUrl": url}), ("CreateQueue", {"QueueName": "new"})):
            failure = sqs.refused(operation, **asked, Attributes={name: value})
            assert (failure.status, failure.code) == (400, "InvalidAttributeValue")
            assert failure.message == f"Invalid value for the parameter {name}."
    assert sqs.refused("GetQueueUrl", QueueName="new").code == "AWS.SimpleQueueService.NonExistentQueue"


@pytest.mark.parametrize(
    "name",
    ["Nothing", "All", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "delayseconds", *OF_FIFO],
)
def test_names_that_a_plain_queue_does_not_have(sqs: Sqs, url: str, name: str) -> None:
    value = OF_FIFO.get(name, "1").replace("true", "false")
    for operation, asked in (("SetQueueAttributes", {"QueueUrl": url}), ("CreateQueue", {"QueueName": "new"})):
        failure = sqs.refused(operation, **asked, Attributes={name: value})
        assert (failure.status, failure.code) == (400, "InvalidAttributeName")
        if name in ("DeduplicationScope", "FifoThroughputLimit"):
            assert failure.message == f"You can specify the {name} only when FifoQueue is set to true."
        else:
            assert failure.message == f"Unknown Attribute {name}."


def test_a_queue_stays_of_its_kind(sqs: Sqs, url: str) -> None:
    fifo = sqs.create_fifo()
    failure = sqs.refused("SetQueueAttributes", QueueUrl=fifo, Attributes={"FifoQueue": "false"})
    assert (failure.code, failure.message) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )
    assert sqs("SetQueueAttributes", QueueUrl=fifo, Attributes={"FifoQueue": "true"}) == {}
    assert (
        sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={"FifoQueue": "true"}).code == "InvalidAttributeName"
    )


def test_the_attributes_of_fifo_queues(sqs: Sqs) -> None:
    url = sqs.create_fifo()
    given = {
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }
    sqs("SetQueueAttributes", QueueUrl=url, Attributes=given)
    assert sqs.attributes(url, *given) == given
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"FifoThroughputLimit": "perQueue"})
    for wrong in ({"DeduplicationScope": "x"}, {"FifoThroughputLimit": ""}, {"ContentBasedDeduplication": "1"}):
        assert sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes=wrong).code == "InvalidAttributeValue"
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DeduplicationScope": "queue"})
    failure = sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={"FifoThroughputLimit": "perMessageGroupId"})
    assert failure.code == "InvalidAttributeValue"
    assert "only where DeduplicationScope is messageGroup" in failure.message
    sqs.create_fifo("other.fifo", FifoThroughputLimit="perMessageGroupId", DeduplicationScope="messageGroup")


def test_the_two_kinds_of_encryption_exclude_each_other(sqs: Sqs, url: str) -> None:
    names = ("KmsMasterKeyId", "SqsManagedSseEnabled")
    both = {"KmsMasterKeyId": "key", "SqsManagedSseEnabled": "true"}
    failure = sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes=both)
    assert failure.code == "InvalidAttributeName"
    assert failure.message.startswith("You can use one type of server-side encryption (SSE) at one time.")
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "key"})
    assert sqs.attributes(url, *names) == {"KmsMasterKeyId": "key", "SqsManagedSseEnabled": "false"}
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true"})
    assert sqs.attributes(url, *names) == {"SqsManagedSseEnabled": "true"}


def test_counts(sqs: Sqs, url: str) -> None:
    for _ in range(3):
        sqs.send(url)
    sqs.send(url, DelaySeconds=900)
    sqs.receive(url, MaxNumberOfMessages=1)
    shown = sqs.attributes(url)
    counted = [shown[f"ApproximateNumberOfMessages{kind}"] for kind in ("", "NotVisible", "Delayed")]
    assert counted == ["2", "1", "1"]


def test_behind_a_hidden_head_counts_as_visible(sqs: Sqs) -> None:
    url = sqs.create_fifo(ContentBasedDeduplication="true")
    for body in "abc":
        sqs.send(url, body, MessageGroupId="g")
    sqs.receive(url, MaxNumberOfMessages=1)
    shown = sqs.attributes(url)
    assert (shown["ApproximateNumberOfMessages"], shown["ApproximateNumberOfMessagesNotVisible"]) == ("2", "1")


# Dead letters


def redrive(**policy: Any) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps(policy)}


@pytest.mark.parametrize("count", [1, 1000, "5"])
def test_a_redrive_policy(sqs: Sqs, url: str, count: int | str) -> None:
    dead = sqs.arn(sqs.create("dead"))
    sqs("SetQueueAttributes", QueueUrl=url, Attributes=redrive(deadLetterTargetArn=dead, maxReceiveCount=count))
    shown = json.loads(sqs.attributes(url)["RedrivePolicy"])
    assert shown == {"deadLetterTargetArn": dead, "maxReceiveCount": int(count)}
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in sqs.attributes(url)


ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("x", "Redrive policy is not a valid JSON map."),
        ("[]", "Redrive policy is not a valid JSON map."),
        ({"maxReceiveCount": 1}, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
        (
            {"deadLetterTargetArn": f"{ARN}dead"},
            "Redrive policy does not contain mandatory attribute: maxReceiveCount.",
        ),
        ({"deadLetterTargetArn": "dummy", "maxReceiveCount": 42}, "Invalid value for deadLetterTargetArn."),
        ({"deadLetterTargetArn": 1, "maxReceiveCount": 42}, "Invalid value for deadLetterTargetArn."),
        (
            {"deadLetterTargetArn": "arn:aws:sns:x:y:dead", "maxReceiveCount": 1},
            "Invalid value for deadLetterTargetArn.",
        ),
        ({"deadLetterTargetArn": f"{ARN}none", "maxReceiveCount": 1}, "Dead letter target does not exist."),
        (
            {"deadLetterTargetArn": f"{ARN}dead.fifo", "maxReceiveCount": 1},
            "Dead-letter queue must be same type of queue as the source.",
        ),
        *[
            (
                {"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": count},
                f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive.",
            )
            for count in (0, 1001, -1, "x", "1.5", 1.5, None, "", True)
        ],
    ],
)
def test_a_redrive_policy_that_is_refused(sqs: Sqs, url: str, policy: Any, reason: str) -> None:
    sqs.create("dead")
    sqs.create_fifo("dead.fifo")
    text = policy if isinstance(policy, str) else json.dumps(policy)
    for operation, asked in (("SetQueueAttributes", {"QueueUrl": url}), ("CreateQueue", {"QueueName": "new"})):
        failure = sqs.refused(operation, **asked, Attributes={"RedrivePolicy": text})
        assert (failure.status, failure.code) == (400, "InvalidParameterValue")
        assert failure.message == f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"


def test_a_fifo_queue_has_a_fifo_queue_for_its_dead_letters(sqs: Sqs) -> None:
    plain, fifo = sqs.arn(sqs.create("dead")), sqs.arn(sqs.create_fifo("dead.fifo"))
    sqs.create_fifo("q.fifo", **redrive(deadLetterTargetArn=fifo, maxReceiveCount=1))
    asked = {"FifoQueue": "true", **redrive(deadLetterTargetArn=plain, maxReceiveCount=1)}
    assert "same type" in sqs.refused("CreateQueue", QueueName="r.fifo", Attributes=asked).message


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ({"redrivePermission": "allowAll"}, True),
        ({"redrivePermission": "denyAll"}, False),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [f"{ARN}other", f"{ARN}q"]}, True),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [f"{ARN}other"]}, False),
    ],
)
def test_who_may_send_dead_letters(sqs: Sqs, url: str, policy: Any, allowed: bool) -> None:
    dead = sqs.create("dead", RedriveAllowPolicy=json.dumps(policy))
    assert json.loads(sqs.attributes(dead, "RedriveAllowPolicy")["RedriveAllowPolicy"]) == policy
    asked = redrive(deadLetterTargetArn=sqs.arn(dead), maxReceiveCount=1)
    if allowed:
        assert sqs("SetQueueAttributes", QueueUrl=url, Attributes=asked) == {}
    else:
        failure = sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes=asked)
        assert (failure.status, failure.code) == (400, "InvalidParameterValue")
        assert "RedriveAllowPolicy" in failure.message


@pytest.mark.parametrize(
    "policy",
    [
        "x",
        [],
        {},
        {"redrivePermission": "some"},
        {"redrivePermission": "byQueue"},
        {"redrivePermission": "byQueue", "sourceQueueArns": []},
        {"redrivePermission": "byQueue", "sourceQueueArns": [f"{ARN}q"] * 11},
        {"redrivePermission": "byQueue", "sourceQueueArns": ["q"]},
        {"redrivePermission": "allowAll", "sourceQueueArns": [f"{ARN}q"]},
    ],
)
def test_an_allow_policy_that_is_refused(sqs: Sqs, url: str, policy: Any) -> None:
    failure = sqs.refused("SetQueueAttributes", QueueUrl=url, Attributes={"RedriveAllowPolicy": json.dumps(policy)})
    assert (failure.status, failure.code) == (400, "InvalidParameterValue")
    assert " for parameter RedriveAllowPolicy is invalid. Reason: " in failure.message


# Tags


def test_tags(sqs: Sqs) -> None:
    url = sqs("CreateQueue", QueueName="q", Attributes={"MaximumMessageSize": "2000"}, tags={"a": "1", "ü<": "€&"})[
        "QueueUrl"
    ]
    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "1", "ü<": "€&"}}
    assert sqs("TagQueue", QueueUrl=url, Tags={"a": "2", "b": ""}) == {}
    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "2", "b": "", "ü<": "€&"}}
    assert sqs("UntagQueue", QueueUrl=url, TagKeys=["a", "ü<", "none"]) == {}
    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"b": ""}}
    assert sqs.attributes(url, "MaximumMessageSize") == {"MaximumMessageSize": "2000"}


@pytest.mark.parametrize("tags", [{"": "x"}, {"x" * 129: "x"}, {"x": "x" * 257}, {"aws:x": "y"}, {"AWS:x": "y"}])
def test_tags_that_are_refused(sqs: Sqs, url: str, tags: dict[str, str]) -> None:
    for operation, asked in (
        ("TagQueue", {"QueueUrl": url, "Tags": tags}),
        ("CreateQueue", {"QueueName": "new", "tags": tags}),
    ):
        assert sqs.refused(operation, **asked).code == "InvalidParameterValue"


def test_a_queue_has_fifty_tags(sqs: Sqs, url: str) -> None:
    sqs("TagQueue", QueueUrl=url, Tags={f"t{number}": "x" for number in range(50)})
    sqs("TagQueue", QueueUrl=url, Tags={"t1": "y"})
    assert sqs.refused("TagQueue", QueueUrl=url, Tags={"more": "x"}).code == "InvalidParameterValue"


def test_a_tag_key_never_reaches_what_this_api_keeps(sqs: Sqs) -> None:
    url = sqs.create(MaximumMessageSize="2000")
    sqs("UntagQueue", QueueUrl=url, TagKeys=["aws:sqs:MaximumMessageSize"])
    assert sqs.attributes(url, "MaximumMessageSize") == {"MaximumMessageSize": "2000"}


def test_no_keys_to_untag(in_json: Sqs) -> None:
    failure = in_json.refused("UntagQueue", QueueUrl=in_json.create(), TagKeys=[])
    assert (failure.code, failure.message) == (
        "InvalidParameterValue",
        "Tag keys must be between 1 and 128 characters in length.",
    )


# Permissions


def permission(**changed: Any) -> dict[str, Any]:
    return {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]} | changed


def test_permissions_are_statements_of_the_policy(sqs: Sqs, url: str) -> None:
    arn = sqs.arn(url)
    assert sqs("AddPermission", QueueUrl=url, **permission()) == {}
    both = permission(Label="m", AWSAccountIds=["123456789012", "210987654321"], Actions=["*", "PurgeQueue"])
    sqs("AddPermission", QueueUrl=url, **both)
    policy = json.loads(sqs.attributes(url, "Policy")["Policy"])
    first = {
        "Sid": "l",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
        "Action": "SQS:SendMessage",
        "Resource": arn,
    }
    second = first | {
        "Sid": "m",
        "Principal": {"AWS": ["arn:aws:iam::123456789012:root", "arn:aws:iam::210987654321:root"]},
        "Action": ["SQS:*", "SQS:PurgeQueue"],
    }
    assert policy == {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy", "Statement": [first, second]}
    assert sqs("RemovePermission", QueueUrl=url, Label="l") == {}
    assert json.loads(sqs.attributes(url, "Policy")["Policy"])["Statement"] == [second]
    sqs("RemovePermission", QueueUrl=url, Label="m")
    assert sqs.attributes(url, "Policy") == {}


def test_permissions_join_a_policy_that_was_set(sqs: Sqs, url: str) -> None:
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": '{"Version": "x", "Statement": {"Sid": "own"}}'})
    sqs("AddPermission", QueueUrl=url, **permission())
    policy = json.loads(sqs.attributes(url, "Policy")["Policy"])
    assert (policy["Version"], [one["Sid"] for one in policy["Statement"]]) == ("x", ["own", "l"])


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        ({"Label": "a b"}, "InvalidParameterValue", "for parameter Label is invalid"),
        ({"Label": "x" * 81}, "InvalidParameterValue", "for parameter Label is invalid"),
        ({"Actions": ["Nothing"]}, "InvalidParameterValue", "Value SQS:Nothing for parameter ActionName is invalid."),
        ({"Actions": ["CreateQueue"]}, "InvalidParameterValue", "Only the queue owner is allowed"),
        ({"Actions": ["SendMessage"] * 8}, "OverLimit", "8 Actions were found, maximum allowed is 7."),
        ({"AWSAccountIds": ["1"]}, "InvalidParameterValue", "Value 1 for parameter PrincipalId is invalid."),
    ],
)
def test_permissions_that_are_refused(sqs: Sqs, url: str, changed: dict[str, Any], code: str, text: str) -> None:
    failure = sqs.refused("AddPermission", QueueUrl=url, **permission(**changed))
    assert (failure.status, failure.code) == (403 if code == "OverLimit" else 400, code)
    assert text in failure.message


def test_a_label_is_given_once(sqs: Sqs, url: str) -> None:
    sqs("AddPermission", QueueUrl=url, **permission())
    failure = sqs.refused("AddPermission", QueueUrl=url, **permission())
    assert failure.message == "Value l for parameter Label is invalid. Reason: Already exists."
    failure = sqs.refused("RemovePermission", QueueUrl=url, Label="m")
    assert failure.message == "Value m for parameter Label is invalid. Reason: can't find label."


def test_a_policy_has_twenty_statements(in_json: Sqs) -> None:
    url = in_json.create()
    for number in range(20):
        in_json("AddPermission", QueueUrl=url, **permission(Label=f"l{number}"))
    assert in_json.refused("AddPermission", QueueUrl=url, **permission(Label="more")).code == "OverLimit"


def test_a_policy_forbids_nothing(sqs: Sqs, url: str) -> None:
    deny = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}],
    }
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": json.dumps(deny)})
    sqs.send(url, "x")
    assert sqs.bodies(url) == ["x"]
