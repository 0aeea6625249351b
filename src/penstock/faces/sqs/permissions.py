"""AddPermission and RemovePermission: statements in the text of the attribute `Policy`.

They are kept for tools that manage them, and nothing here obeys them. Who may do what is decided by API keys.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import QueueNotFound
from penstock.faces.permission import actor_of
from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.errors import OVER_LIMIT, Rejection, missing, wrong_value
from penstock.faces.sqs.queue_attributes import LABEL, LONGEST_TEXT, POLICY
from penstock.faces.sqs.requests import VIA, AddPermissionRequest, RemovePermissionRequest
from penstock.model import Queue, QueueChange
from penstock.pending import Pending, chained

_VERSION: Final = "2008-10-17"
_MOST_ACTIONS: Final = 7
_MOST_STATEMENTS: Final = 20
_MOST_ACCOUNTS: Final = 50
_LABEL_LENGTH: Final = 80

_ACTIONS: Final = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "DeleteMessage",
        "DeleteMessageBatch",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
        "SendMessageBatch",
    }
)
_OF_OWNER: Final = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueues",
        "ListQueueTags",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)


class Permissions:
    def __init__(self, broker: Broker, place: AwsPlace) -> None:
        self._broker = broker
        self._place = place

    def add(self, request: Request, asked: AddPermissionRequest, queue: str) -> Pending[None]:
        label = _checked_label(asked.label)
        accounts, actions = asked.account_ids, asked.actions
        if accounts is None:
            raise missing("AWSAccountIds")
        if not actions:
            raise missing("Actions")
        _check_actions(actions)
        if not accounts:
            raise wrong_value("[]", "PrincipalId", "Unable to verify.")
        if len(accounts) > _MOST_ACCOUNTS:
            raise Rejection(
                OVER_LIMIT, f"{len(accounts)} AWSAccountIds were found, maximum allowed is {_MOST_ACCOUNTS}."
            )
        for account in accounts:
            if not (account.isascii() and account.isdecimal() and len(account) == 12):
                raise wrong_value(account, "PrincipalId", "Unable to verify.")
        arn = self._place.arn(request, queue)
        statement = {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": _one_or_all([f"arn:aws:iam::{account}:root" for account in accounts])},
            "Action": _one_or_all([f"SQS:{action}" for action in actions]),
            "Resource": arn,
        }

        def append(policy: dict[str, Any]) -> None:
            statements = policy["Statement"]
            if label in _labels(policy):
                raise wrong_value(label, "Label", "Already exists.")
            if len(statements) >= _MOST_STATEMENTS:
                raise Rejection(OVER_LIMIT, f"{_MOST_STATEMENTS} statements are the most that a policy may have.")
            statements.append(statement)

        return self._edit(request, queue, append)

    def remove(self, request: Request, asked: RemovePermissionRequest, queue: str) -> Pending[None]:
        label = _checked_label(asked.label)

        def take_away(policy: dict[str, Any]) -> None:
            if label not in _labels(policy):
                raise wrong_value(label, "Label", "can't find label.")
            policy["Statement"] = [one for one in policy["Statement"] if _sid(one) != label]

        return self._edit(request, queue, take_away)

    def _edit(self, request: Request, queue: str, edit: Any) -> Pending[None]:
        arn = self._place.arn(request, queue)

        def change(found: list[Queue | None]) -> Pending[None]:
            [about] = found
            if about is None:
                raise QueueNotFound(queue)
            policy = _policy(about, arn)
            edit(policy)
            text = json.dumps(policy, separators=(",", ":")) if policy["Statement"] else None
            if text is not None and len(text) > LONGEST_TEXT:
                raise Rejection(OVER_LIMIT, f"{LONGEST_TEXT} characters are the most that a policy may have.")
            labels = QueueChange(labels={LABEL + POLICY: text})
            return self._broker.update_queue(queue, labels, by=actor_of(request, VIA)).map(lambda _queue: None)

        return chained(self._broker.find_queues((queue,)), change)


def _policy(queue: Queue, arn: str) -> dict[str, Any]:
    """That of the queue, whose text its owner may have set, or a new one."""
    text = queue.settings.labels.get(LABEL + POLICY)
    policy: dict[str, Any] = (
        {"Version": _VERSION, "Id": f"{arn}/SQSDefaultPolicy"} if text is None else json.loads(text)
    )
    statements = policy.get("Statement", [])
    return {**policy, "Statement": list(statements) if isinstance(statements, list) else [statements]}


def _sid(statement: object) -> object:
    return statement.get("Sid") if isinstance(statement, dict) else None


def _labels(policy: dict[str, Any]) -> list[object]:
    return [_sid(statement) for statement in policy["Statement"]]


def _checked_label(label: str | None) -> str:
    if not label:
        raise missing("Label")
    if len(label) > _LABEL_LENGTH or not (label.isascii() and label.replace("-", "a").replace("_", "a").isalnum()):
        raise wrong_value(
            label, "Label", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    return label


def _check_actions(actions: list[str]) -> None:
    if len(actions) > _MOST_ACTIONS:
        raise Rejection(OVER_LIMIT, f"{len(actions)} Actions were found, maximum allowed is {_MOST_ACTIONS}.")
    for action in actions:
        if action in _OF_OWNER:
            raise wrong_value(f"SQS:{action}", "ActionName", "Only the queue owner is allowed to invoke this action.")
        if action not in _ACTIONS:
            raise wrong_value(
                f"SQS:{action}", "ActionName", "Please refer to the appropriate WSDL for a list of valid actions. "
            )


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
