"""A small load in a process of its own, which can be stopped while it holds claims."""

from __future__ import annotations

import sys
from pathlib import Path

from soak.history import History
from soak.load import Load
from soak.plan import all_queues
from soak.processes import told_to_stop


def main(history: str, name: str, seed: str, url: str) -> None:
    stop = told_to_stop()
    kept = History(Path(history))
    load = Load(kept, [url], int(seed), all_queues(), producers=1, consumers=2, holds_s=(1,), name=name)
    with load:
        print("ready", flush=True)
        stop.wait()
    kept.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
