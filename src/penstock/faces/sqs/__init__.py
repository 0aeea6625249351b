"""The SQS API: all operations of `sqs/2012-11-05`, in both protocols, at the root of the server and at queues' URLs.

    routes.py               the paths, and which protocol a request speaks
    protocols.py answers.py from a request to an operation, and back
    operations.py           the table of operations
    requests.py results.py  what they are asked and what they answer, for both protocols
    form.py xml_text.py     the older protocol's ways of writing those
    queues.py … send.py     the operations themselves
    errors.py checks.py     what is refused, and in which words

Queues and messages are those of every other API. The words of SQS stay in here.
"""

from __future__ import annotations

from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.routes import explaining, root_of, sqs_routes

__all__ = ["AwsPlace", "explaining", "root_of", "sqs_routes"]
