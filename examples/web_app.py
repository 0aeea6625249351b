"""A web application that does its slow work later: a request enqueues a job, a consumer thread does it.

The queue is a SQLite file beside the application, so there is no server to run. Point URL at PostgreSQL, and any
number of web processes on any number of machines share the work.
"""

import os
import signal
import threading
from collections.abc import Iterable
from wsgiref.simple_server import make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from penstock.errors import InvalidRequest, MessageNotFound
from penstock.gq import Client

URL = os.environ.get("QUEUE", "sqlite:///data/web.db")
PORT = int(os.environ.get("PORT", "8000"))

client = Client(URL)
producer = client.producer("thumbnails")  # One for all threads; each push is on disk when it returns.


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """POST /NAME enqueues a job and answers its id; GET /ID tells how far it is."""
    name = environ["PATH_INFO"].lstrip("/")
    if environ["REQUEST_METHOD"] == "POST":
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        return [f"{producer.push(name)}\n".encode()]
    try:
        status = client.status(name)
    except (InvalidRequest, MessageNotFound):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"no such job\n"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{status}\n".encode()]


def make_thumbnail(payload: bytes) -> None:
    print("made a thumbnail of", payload.decode(), flush=True)


def main() -> None:
    consumer = client.consumer("thumbnails")
    worker = threading.Thread(target=consumer.process, args=(make_thumbnail,))
    worker.start()
    with make_server("127.0.0.1", PORT, app) as server:
        # From another thread: shutdown waits until the request at hand is answered.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
    consumer.stop()  # The job at hand is finished; those not started go back into the queue.
    worker.join()
    client.close()


if __name__ == "__main__":
    main()
