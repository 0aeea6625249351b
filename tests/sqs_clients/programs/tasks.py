"""A Celery application whose broker is a server of the tests. What a task has done is a line in a file: there is no
place for results.

    LOG         the file
    GATE        a file for which `held` waits
"""

from __future__ import annotations

import os
import time

from celery import Celery

app = Celery("tasks", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": os.environ["AWS_DEFAULT_REGION"],
        "is_secure": False,
        "visibility_timeout": 60,
        "wait_time_seconds": 1,
        "polling_interval": 0.1,
        "queue_name_prefix": "celery-",
    },
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_default_queue="jobs",
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
)


def note(*words):
    """In one write, which others cannot get between."""
    line = " ".join(map(str, words)) + "\n"
    descriptor = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@app.task
def plain(name):
    note("done", name)


@app.task(bind=True, max_retries=3)
def stubborn(self, name):
    """Succeeds at its third try."""
    note("tried", name)
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    note("done", name)


@app.task
def held(name):
    """Waits for the gate, if it is not open: the worker may be killed meanwhile."""
    note("begun", name, os.getpid())
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.01)
    note("done", name)
