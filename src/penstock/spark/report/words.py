"""What the numbers of a report mean, for whoever reads it: the text at the end of the page."""

from __future__ import annotations

from penstock.spark.report.figures import ACCURACY

MEANINGS = (
    (
        "Where the numbers come from",
        "The ledger has one row for each message that has left a queue. A message that is still in its queue has none "
        "yet, and is counted nowhere here but under 'in the queue now', if a server was asked. What was not archived "
        "yet is missing as well.",
    ),
    (
        "Sent, finished",
        "How many messages were sent, and how many left their queue, in each stretch of time. Sent counts only "
        "messages that have left since: the last stretches look emptier than they were while many are still in the "
        "queue.",
    ),
    (
        "Moved and dead-lettered",
        "Such a message leaves one queue and arrives in another. It is finished in the first, as moved or "
        "dead-lettered, and gets a second row when it leaves the second. It keeps the time it was first sent at, so "
        "in the second queue it counts as sent then, and its wait and the backlog there include the time it spent in "
        "the first.",
    ),
    (
        "Backlog",
        "What had been sent and had not finished at the end of each stretch, of the messages that have finished by "
        "now. It ends at zero unless the report ends earlier than the ledger; messages that are still in the queue "
        "come on top.",
    ),
    (
        "Wait",
        "From send to first delivery, a delay that was asked for included; shown where the message was sent. Messages "
        "that nobody ever received have none.",
    ),
    (
        "Handling",
        "From the last delivery to the ack, of processed messages; shown where they finished.",
    ),
    (
        "p50, p95, p99",
        "Half of the messages took no longer than p50; one in twenty took longer than p95, and one in a hundred "
        f"longer than p99. They are taken from counts in narrow steps, and are right within {ACCURACY * 100:.1f} %.",
    ),
    (
        "Handed out again",
        "The share of the finished messages that were received more than once in the queue they left.",
    ),
    (
        "How messages end",
        "processed: acknowledged. dead-lettered: received too often. failed: past its deadline. expired: past the "
        "queue's retention. purged: removed with the rest of its queue. moved: taken to another queue. collapsed: an "
        "equal message was there already.",
    ),
)
