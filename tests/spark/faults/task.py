"""What a Spark task does for a shipment, without Spark, for a process that is to be killed. Not a test.

`python -m tests.spark.faults.task '{"url": …, "lake": …, "number": …, "limit": …}'`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from devtools.programs import Program
from penstock.client import ShipmentRef
from penstock.spark.landing import Landing
from penstock.spark.server import Server
from penstock.spark.storage import Storage
from tests.spark.faults.work import PATH


def start(place: Path, name: str, environ: dict[str, str], **options: object) -> Program:
    command = (sys.executable, "-m", "tests.spark.faults.task", json.dumps(options))
    return Program(place, name, *command, environ={"PYTHONPATH": PATH, **environ})


def land(url: str, lake: str, number: int, limit: int) -> Landing:
    """Shipment `number` of the queue "q" to the lake."""
    server = Server(url)
    with server.client() as client:
        shipment = client.claim_shipment(ShipmentRef("q", "drain", number), limit, 3_600_000)
    assert shipment is not None
    landing = Landing(server, Storage.at(lake), shipment)
    landed = landing.land()
    assert landed.manifest is not None, landed
    return landing


if __name__ == "__main__":
    land(**json.loads(sys.argv[1]))
