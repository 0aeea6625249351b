"""Which worker runs which tests, and in which order: see `pytest_xdist_make_scheduler` in `tests/conftest.py`."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# What takes longest is begun first: begun last, one worker would be at it for minutes while the others have nothing
# left.
FIRST = (
    "tests/spark/faults/",
    "tests/spark/cluster/",
    "tests/spark/",
    "tests/soak/test_campaign.py",
    "tests/console/",
    "tests/faults/test_failover.py",
    "tests/cli/test_pipeline.py",
    "tests/faults/",
    "tests/soak/",
    "tests/docs/test_examples.py",
    "tests/docs/test_installed.py",
    "tests/gq/test_crowd.py",
    "tests/mqcore/",
    "tests/server/",
    "tests/stores/test_state_machine.py",
)

# Each session of Spark takes seconds to start, and half the machine while it runs. While the browser of the console
# runs, so does an event loop in the main thread, and no test in between could have one of its own. What these modules
# start for their tests takes about as long as the tests.
ONE_WORKER = (
    "tests/console/",
    "tests/spark/cluster/test_cluster.py",
    "tests/spark/cluster/test_connect.py",
    "tests/spark/faults/",
    "tests/spark/",
    "tests/deploy/test_prometheus.py",
    "tests/docs/test_installed.py",
    "tests/faults/test_failover.py",
    "tests/openapi/test_generated.py",
    "tests/origins/test_chromium.py",
    "tests/soak/test_chain.py",
)


def scope_of(nodeid: str) -> str:
    """What one worker runs, one after the other. Most tests go by themselves to whichever worker is free."""
    return next((scope for scope in ONE_WORKER if nodeid.startswith(scope)), nodeid)


def rank(nodeid: str) -> int:
    """The lower, the earlier."""
    return next((number for number, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


class Scheduling(LoadScopeScheduling):
    """Forgets what is done: that of xdist counts all of it again after each test, which takes milliseconds for each of
    many thousands."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by how many tests there are in each: see `FIRST`
        self._numbers: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def schedule(self) -> None:
        if self.collection is None:
            collection = next(iter(self.registered_collections.values()))
            self._numbers = {nodeid: number for number, nodeid in enumerate(collection)}
        super().schedule()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        scope = scope_of(nodeid)
        tests = self.assigned_work[node][scope]
        tests[nodeid] = True
        if all(tests.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        scope, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = tests
        node.send_runtest_some([self._numbers[nodeid] for nodeid, is_done in tests.items() if not is_done])
