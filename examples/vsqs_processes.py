"""Two processes that share nothing but a directory: one publishes, the other receives and deletes."""

import multiprocessing
import tempfile

from penstock.vsqs import Queue

COUNT = 20


def publish(folder: str) -> None:
    with Queue(folder) as queue:
        for number in range(COUNT):
            queue.publish(f"job {number}".encode())  # Survives a power cut from here on.


def receive(folder: str) -> None:
    with Queue(folder) as queue:
        for _ in range(COUNT):
            # Hidden from others for ten seconds. If this process died now, another would get the message then.
            message, payload = queue.receive(visibility_timeout=10)
            print(payload.decode())
            queue.delete(message)


def main() -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = f"{parent}/jobs"
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=work, args=(folder,)) for work in (receive, publish)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        with Queue(folder) as queue:
            print("left:", queue.size())


if __name__ == "__main__":
    main()
