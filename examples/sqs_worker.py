"""A worker with boto3: jobs in order for each customer, and a dead-letter queue for those that keep failing.

It would run against AWS as well: only the endpoint is Penstock's. It needs boto3 (`pip install boto3`).

    python examples/sqs_worker.py [--until-empty]
"""

import json
import os
import sys

import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url=os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080"),
    region_name=os.environ.get("AWS_DEFAULT_REGION", "eu-central-1"),
    # Without API keys any will do. With them, leave these out: `penstock key create --aws` prints the variables.
    aws_access_key_id=os.environ.get("AWS_ACCESS_KEY_ID", "any"),
    aws_secret_access_key=os.environ.get("AWS_SECRET_ACCESS_KEY", "any"),
)


def create_queues() -> str:
    """Creating a queue that is there already, with the same attributes, changes nothing."""
    dead = sqs.create_queue(QueueName="parcels-dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    attributes = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "VisibilityTimeout": "30",
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3}),
    }
    return sqs.create_queue(QueueName="parcels.fifo", Attributes=attributes)["QueueUrl"]


def send(url: str) -> None:
    """Ten at a time. Sent again within five minutes, a message with the same body is not stored again."""
    customers, steps = ("ada", "grace", "stranger"), ("pack", "ship")
    parcels = [{"customer": customer, "step": step} for step in steps for customer in customers]
    entries = [
        {"Id": str(number), "MessageBody": json.dumps(parcel), "MessageGroupId": parcel["customer"]}
        for number, parcel in enumerate(parcels)
    ]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    for failed in answer.get("Failed", []):
        print(f"not sent: {failed['Message']}", file=sys.stderr)


def handle(parcel: dict[str, str]) -> None:
    if parcel["customer"] == "stranger":
        raise ValueError("no such customer")
    print(f"{parcel['step']} for {parcel['customer']}")


def work(url: str, until_empty: bool) -> None:
    # A long poll: it is answered as soon as there is something.
    asked = {"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0 if until_empty else 20}
    while True:
        received = sqs.receive_message(**asked, AttributeNames=["MessageGroupId"]).get("Messages", [])
        if until_empty and not received:
            return
        put_off = set()
        for message in received:
            customer = message["Attributes"]["MessageGroupId"]
            try:
                # What comes after a message that failed has to wait for it.
                if customer not in put_off:
                    handle(json.loads(message["Body"]))
            except ValueError as error:
                print(f"put off: {error}", file=sys.stderr)
                put_off.add(customer)
            receipt = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
            if customer in put_off:
                # At once here; a real worker would wait for longer each time.
                sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            else:
                sqs.delete_message(**receipt)


if __name__ == "__main__":
    queue_url = create_queues()
    send(queue_url)
    work(queue_url, until_empty="--until-empty" in sys.argv)
